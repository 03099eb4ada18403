// The socket to the agent: frames out from any thread, frames in for the one that reads.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <optional>
#include <string>

#include "launcher/wire/frame.h"

namespace trainrun::pmix {

class Channel {
 public:
  explicit Channel(int fd) : fd_(fd) {}

  // The agent reads all the time, so this does not wait for long, whichever thread it is. An agent that is
  // gone is found by the reader.
  template <class Message>
  void send(const Message& message) {
    const auto bytes = wire::to_frame(message);
    const std::lock_guard lock(writing_);
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::write(fd_, bytes.data() + at, bytes.size() - at);
      if (n > 0) {
        at += static_cast<std::size_t>(n);
      } else if (errno != EINTR) {
        return;
      }
    }
  }

  // Blocks. Nothing: the agent is gone, or does not speak our protocol.
  std::optional<wire::Frame> next() {
    for (;;) {
      if (auto frame = reader_.next()) return frame;
      if (reader_.failed()) return std::nullopt;
      const auto space = reader_.space();
      const ssize_t n = ::read(fd_, space.data, space.size);
      if (n > 0) {
        reader_.filled(static_cast<std::size_t>(n));
      } else if (n == 0 || errno != EINTR) {
        return std::nullopt;
      }
    }
  }

 private:
  const int fd_;
  std::mutex writing_;
  wire::FrameReader reader_;
};

}  // namespace trainrun::pmix
