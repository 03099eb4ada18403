// Messages from the rank so far before this one in a mesh, and to the one so far after it, for which there is
// room from the start: each is one write, where Gloo's unbound buffers take three, since they ask whether the
// other waits. Every letter is answered, by way of however many ranks, before the next but one is sent; so
// room for two is enough.
#pragma once

#include <gloo/transport/buffer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "comm/backends/gloo/gloo_mesh.h"

namespace trainrun::comm {

class GlooLetters {
 public:
  // What stands before a letter's text, and after it.
  static constexpr std::size_t head = 16, tail = 8;

  // Made before the mesh connects: Gloo tells of a broken connection those alone who are there when it
  // breaks. `sheet`: where letters are written, the text `head` bytes from its begin. Letters that come have
  // at most `room` bytes of text. `number`: of this pair of neighbours, one that its ends have for no other.
  // `mesh` outlives it.
  GlooLetters(GlooMesh& mesh, int distance, std::span<char> sheet, std::size_t room, int number);

  // The text on the sheet, of which as much is sent, more may stand behind it. Both throw what Gloo throws.
  void send(std::size_t bytes);
  // Waits without a limit for the other's letter, of the same turn, and until the own one is gone: then the
  // sheet is free, and as it was. The text stays until the next letter but one.
  const char* await();

 private:
  struct Box {
    std::unique_ptr<char[]> memory;
    std::unique_ptr<gloo::transport::Buffer> in, out;
  };
  [[nodiscard]] bool has_come(const Box& box) const;

  GlooMesh* mesh_;
  std::span<char> sheet_;
  std::size_t room_;
  std::uint64_t turn_ = 0;
  std::size_t longest_ = 0;
  char* end_ = nullptr;  // of the letter on the sheet; its tail hides what stands there
  std::array<char, tail> under_tail_{};
  std::array<Box, 2> boxes_;
};

}  // namespace trainrun::comm
