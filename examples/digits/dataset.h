// The digits, split into a training and a held-out part that are the same in every run.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace digits {

inline constexpr int pixels = 64;
inline constexpr int classes = 10;

struct Digit {
  std::array<float, pixels> pixel;  // 0..1
  int label;                        // 0..9
};

struct Dataset {
  std::vector<Digit> train, held_out;
};

// Reads a gzipped file of 64 columns and a class. Every fifth digit is held out. Throws std::runtime_error
// that names the file and line.
Dataset read_dataset(const std::string& path);

}  // namespace digits
