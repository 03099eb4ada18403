// The lines of the output bench: "RANK SEQUENCE text\n". Text and length follow from rank and sequence alone,
// so a reader can tell a whole line from a torn one, and finds what is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace bench {

constexpr std::size_t shortest_text = 20, longest_text = 180;  // about what a training log has

inline std::size_t text_length(unsigned rank, std::uint64_t sequence) {
  return shortest_text + (sequence * 7919 + rank * 131) % (longest_text - shortest_text);
}

// The text of a line begins at some place of this pattern.
struct Pattern {
  static constexpr std::size_t shifts = 64;
  char bytes[shifts + longest_text];
  Pattern() {
    for (std::size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<char>('!' + i * 31 % 94);
  }
  const char* text(unsigned rank, std::uint64_t sequence) const {
    return bytes + (sequence + rank * 7) % shifts;
  }
};

}  // namespace bench
