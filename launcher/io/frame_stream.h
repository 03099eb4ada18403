// One Link as its end sees it: frames in, frames out, over one fd or a pair of them.
//
// Sending never blocks: frames are queued and go out together in the next turn of the loop, or at once when
// they are many. The queue is bounded by what the peer allows (credit), not by this class; queued() says how
// long it is.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/base/fd.h"
#include "launcher/io/loop.h"
#include "launcher/wire/frame.h"

namespace trainrun::io {

class FrameStream {
 public:
  struct Handlers {
    std::function<void(const wire::Frame&)> frame;
    // Once, and nothing after it: the peer closed, the stream broke, or the peer does not speak our protocol.
    std::function<void(std::string reason)> closed;
    // Something came, which may be a part of a frame. Before the frames that it completes.
    std::function<void()> heard{};
  };

  // `out` may be empty: then `in` is a socket that is used both ways.
  FrameStream(Loop& loop, Fd in, Fd out, Handlers handlers);
  ~FrameStream();  // handlers are not called any more; allowed inside a handler
  FrameStream(const FrameStream&) = delete;
  FrameStream& operator=(const FrameStream&) = delete;

  template <class Message>
  void send(const Message& message) {
    if (closed()) return;
    wire::append_frame(queue(), message);
    flush_soon();
  }
  [[nodiscard]] std::size_t queued() const;
  [[nodiscard]] bool closed() const;  // what is sent from now on goes nowhere
  // Writes what is queued, blocking for at most `within`, and closes; for the very end of a process.
  void flush_and_close(Duration within);

 private:
  struct State;
  std::string& queue();
  void flush_soon();
  std::shared_ptr<State> state_;
};

}  // namespace trainrun::io
