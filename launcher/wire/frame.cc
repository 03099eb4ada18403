#include "launcher/wire/frame.h"

#include <algorithm>
#include <cstring>

namespace trainrun::wire {

namespace {
constexpr std::size_t smallest_space = 64u << 10;
constexpr std::size_t usual_buffer = 256u << 10;
}  // namespace

FrameReader::Space FrameReader::space() {
  const auto held = end_ - begin_;
  if (capacity_ - held < smallest_space) {
    const auto larger = std::max(usual_buffer, capacity_ * 2);
    auto buffer = std::make_unique_for_overwrite<char[]>(larger);
    if (held > 0) std::memcpy(buffer.get(), buffer_.get() + begin_, held);
    buffer_ = std::move(buffer);
    capacity_ = larger;
  } else if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, held);
  }
  begin_ = 0;
  end_ = held;
  return {buffer_.get() + end_, capacity_ - end_};
}

std::optional<Frame> FrameReader::next() {
  if (failed_ || end_ - begin_ < frame_header) return std::nullopt;
  const auto* bytes = reinterpret_cast<const unsigned char*>(buffer_.get() + begin_);
  const std::size_t length = static_cast<std::size_t>(bytes[0]) << 24 |
                             static_cast<std::size_t>(bytes[1]) << 16 |
                             static_cast<std::size_t>(bytes[2]) << 8 | bytes[3];
  if (length == 0 || length > frame_limit) {
    failed_ = true;
    return std::nullopt;
  }
  if (end_ - begin_ < 4 + length) return std::nullopt;
  const Frame frame{bytes[4], std::string_view(buffer_.get() + begin_ + frame_header, length - 1)};
  begin_ += 4 + length;
  return frame;
}

}  // namespace trainrun::wire
