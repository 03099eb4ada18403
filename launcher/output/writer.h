// Our stdout or stderr, written to without ever blocking the loop, whoever reads it and however slowly.
//
// The descriptor is shared with the shell and others, so it is not switched to non-blocking: a pipe or
// terminal is opened once more through /proc; a file is written to as it is; a socket is asked not to wait.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/io/loop.h"

namespace trainrun::output {

class Writer {
 public:
  // `drained` is called when a backlog has gone below `low_water`; `closed` once, when nobody reads any more.
  // `full`, with errno, when a disk takes no more: what is to be written is dropped until it does again, and
  // then begins with a line of its own.
  static constexpr std::size_t low_water = 1u << 20;
  struct Handlers {
    std::function<void()> drained;
    std::function<void()> closed;
    std::function<void(int error)> full = [](int) {};
  };
  Writer(io::Loop& loop, int fd, Handlers handlers);
  ~Writer();

  void write(std::string_view bytes);
  [[nodiscard]] std::size_t backlog() const;
  [[nodiscard]] bool closed() const;
  // Blocks until all is written or the reader is gone; at most `within`. For the very end.
  void flush(Duration within);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trainrun::output
