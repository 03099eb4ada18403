// Frames to and from the helper. Unlike a Link it is also read when asked: what a rank has said by way of
// the helper must be known when its end is.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/base/fd.h"
#include "launcher/io/loop.h"
#include "launcher/wire/frame.h"

namespace trainrun::agent {

class PmixChannel {
 public:
  // `frame` may be called from within read_all(). No more of either after `closed`, and none after the end of
  // this.
  struct Handlers {
    std::function<void(const wire::Frame&)> frame;
    std::function<void()> closed;
  };
  PmixChannel(io::Loop& loop, Fd socket, Handlers handlers);
  ~PmixChannel();
  PmixChannel(const PmixChannel&) = delete;
  PmixChannel& operator=(const PmixChannel&) = delete;

  template <class Message>
  void send(const Message& message) {
    write(wire::to_frame(message));
  }
  // All that has come until now.
  void read_all();

 private:
  void write(std::string bytes);
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trainrun::agent
