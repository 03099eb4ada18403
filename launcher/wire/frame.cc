#include "launcher/wire/frame.h"

#include <algorithm>
#include <cstring>

namespace trainrun::wire {

namespace {
constexpr std::size_t smallest_space = 64u << 10;
constexpr std::size_t usual_buffer = 256u << 10;
}  // namespace

FrameReader::Space FrameReader::space() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < smallest_space) buffer_.resize(std::max(usual_buffer, buffer_.size() * 2));
  return {buffer_.data() + end_, buffer_.size() - end_};
}

std::optional<Frame> FrameReader::next() {
  if (failed_ || end_ - begin_ < frame_header) return std::nullopt;
  const auto* bytes = reinterpret_cast<const unsigned char*>(buffer_.data() + begin_);
  const std::size_t length = static_cast<std::size_t>(bytes[0]) << 24 |
                             static_cast<std::size_t>(bytes[1]) << 16 |
                             static_cast<std::size_t>(bytes[2]) << 8 | bytes[3];
  if (length == 0 || length > frame_limit) {
    failed_ = true;
    return std::nullopt;
  }
  if (end_ - begin_ < 4 + length) return std::nullopt;
  const Frame frame{bytes[4], std::string_view(buffer_).substr(begin_ + frame_header, length - 1)};
  begin_ += 4 + length;
  return frame;
}

}  // namespace trainrun::wire
