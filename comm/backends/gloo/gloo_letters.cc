#include "comm/backends/gloo/gloo_letters.h"

#include <gloo/transport/pair.h>

#include <algorithm>
#include <cstring>
#include <exception>

namespace trainrun::comm {
namespace {

struct Head {
  std::uint64_t turn, bytes;
};
static_assert(sizeof(Head) == GlooLetters::head);

// A number that no text is likely to have where a letter ends.
std::uint64_t tail_of(std::uint64_t turn) { return (turn + 1) * 0x9e3779b97f4a7c15; }
static_assert(sizeof tail_of(0) == GlooLetters::tail);

// From this on Gloo's wish may be more than the kernel gave, and come with each letter.
constexpr std::size_t long_letter = std::size_t{64} << 10;

}  // namespace

GlooLetters::GlooLetters(GlooMesh& mesh, int distance, std::span<char> sheet, std::size_t room, int number)
    : mesh_(&mesh), sheet_(sheet), room_(room) {
  const auto& after = mesh.getPair((mesh.rank + distance) % mesh.size);
  const auto& before = mesh.getPair((mesh.rank + mesh.size - distance) % mesh.size);
  const auto whole = head + room + tail;
  int slot = 2 * number;
  for (auto& box : boxes_) {
    box.memory = std::make_unique_for_overwrite<char[]>(whole);
    std::memset(box.memory.get(), 0, head);
    box.in = before->createRecvBuffer(slot, box.memory.get(), whole);
    box.out = after->createSendBuffer(slot, sheet.data(), sheet.size());
    ++slot;
  }
}

void GlooLetters::send(std::size_t bytes) {
  ++turn_;
  const Head begin{turn_, bytes};
  const auto end = tail_of(turn_);
  std::memcpy(sheet_.data(), &begin, head);
  end_ = sheet_.data() + head + bytes;
  std::memcpy(under_tail_.data(), end_, tail);
  std::memcpy(end_, &end, tail);
  boxes_[turn_ % 2].out->send(0, head + bytes + tail);
  if (bytes <= longest_ && bytes < long_letter) return;
  longest_ = std::max(longest_, bytes);
  mesh_->free_send_buffers();
}

// Gloo tells of a broken connection also those whose letter had come before. A rank that has ended its part
// may leave at once, so what it has sent must count.
bool GlooLetters::has_come(const Box& box) const {
  Head begin{};
  std::memcpy(&begin, box.memory.get(), head);
  if (begin.turn != turn_ || begin.bytes > room_) return false;
  std::uint64_t end = 0;
  std::memcpy(&end, box.memory.get() + head + begin.bytes, tail);
  return end == tail_of(turn_);
}

const char* GlooLetters::await() {
  const auto& box = boxes_[turn_ % 2];
  try {
    box.in->waitRecv();
  } catch (const std::exception&) {
    if (!has_come(box)) throw;
  }
  box.out->waitSend();
  std::memcpy(end_, under_tail_.data(), tail);
  return box.memory.get() + head;
}

}  // namespace trainrun::comm
