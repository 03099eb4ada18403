// Frames on a Link: u32 big-endian length of what follows, u8 type, payload. Pure; the sockets are in
// launcher/io.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/wire/codec.h"

namespace trainrun::wire {

constexpr std::size_t frame_header = 5;
constexpr std::size_t frame_limit = 8u << 20;  // of type and payload; an environment of 2 MiB fits many times

struct Frame {
  std::uint8_t type = 0;
  std::string_view payload;  // valid until the reader is fed again
};

// Appends a frame holding `message` to `out`.
template <class Message>
void append_frame(std::string& out, const Message& message) {
  const auto start = out.size();
  out.append(4, '\0');
  out.push_back(static_cast<char>(Message::type));
  Encoder encoder(out);
  const_cast<Message&>(message).fields(encoder);
  const auto length = static_cast<std::uint32_t>(out.size() - start - 4);
  for (std::size_t i = 0; i < 4; ++i) out[start + i] = static_cast<char>(length >> (24 - 8 * i));
}

template <class Message>
std::string to_frame(const Message& message) {
  std::string out;
  append_frame(out, message);
  return out;
}

// The message in a frame of that type, or nothing if the payload is malformed.
template <class Message>
std::optional<Message> from_frame(const Frame& frame) {
  std::optional<Message> message(std::in_place);
  Decoder decoder(frame.payload);
  message->fields(decoder);
  if (!decoder.done()) message.reset();
  return message;
}

// Cuts a stream into frames without copying: write into space(), say how much with filled(), then take frames
// with next() until it gives nothing. Once failed() nothing more can be had: the peer does not speak our
// protocol.
class FrameReader {
 public:
  struct Space {
    char* data;
    std::size_t size;
  };
  Space space();  // at least 64 KiB; views of earlier frames are void after this call
  void filled(std::size_t bytes) { end_ += bytes; }
  std::optional<Frame> next();
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  std::unique_ptr<char[]> buffer_;  // not zeroed: pages that no peer fills cost nothing
  std::size_t capacity_ = 0, begin_ = 0, end_ = 0;
  bool failed_ = false;
};

}  // namespace trainrun::wire
