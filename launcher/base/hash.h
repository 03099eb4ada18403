// A sum by which two texts are told apart: FNV-1a, 64 bits. No protection against anybody who wants another
// text to have the same.
#pragma once

#include <cstdint>
#include <string_view>

namespace trainrun {

constexpr std::uint64_t fnv1a_of_nothing = 14695981039346656037ULL;

// Of what `before` is the sum of, and then `bytes`.
constexpr std::uint64_t fnv1a(std::string_view bytes, std::uint64_t before = fnv1a_of_nothing) {
  for (const char c : bytes) before = (before ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return before;
}

}  // namespace trainrun
