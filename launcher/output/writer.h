// Our stdout or stderr, written to without ever blocking the loop, whoever reads it and however slowly.
//
// The descriptor is shared with the shell and others, so it is not switched to non-blocking: a pipe or
// terminal is opened once more through /proc; a socket is asked not to wait; a file is left to the
// FileThreads. A pipe or terminal that is not ours to open (after su or sudo) gets a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/io/loop.h"
#include "launcher/output/file_threads.h"

namespace trainrun::output {

class Writer {
 public:
  // `drained` is called when a backlog has gone below `low_water`; `closed` once, when nobody reads any more.
  // `full`, with errno, when a disk takes no more, or the descriptor was never open: what is to be written is
  // dropped until it does again, and then begins with a line of its own.
  static constexpr std::size_t low_water = 1u << 20;
  struct Handlers {
    std::function<void()> drained;
    std::function<void()> closed;
    std::function<void(int error)> full = [](int) {};
    std::function<void()> moved = [] {};  // the backlog has changed from outside
  };
  // `files` must outlive it. `name` is what a file is called in a message.
  Writer(io::Loop& loop, FileThreads& files, int fd, std::string name, Handlers handlers);
  ~Writer();

  void write(std::string_view bytes);
  // The same without a copy: `bytes` is empty then, with the room of others that were written.
  void take(std::string& bytes);
  [[nodiscard]] std::size_t backlog() const;  // bytes; those of a file are the FileThreads'
  // Bytes that were dropped, also since nobody reads any more; those of a file are the FileThreads'.
  [[nodiscard]] std::size_t lost() const;
  [[nodiscard]] bool closed() const;  // nobody reads any more
  // The same, found out by a look: what was never written cannot have failed.
  [[nodiscard]] bool has_no_reader() const;
  [[nodiscard]] bool usable() const;  // neither that, nor was it closed when we were started
  [[nodiscard]] bool idle() const;    // nothing waits, and nothing that has happened is still to be told
  // For the very end: what waits counts as lost. What is written after it begins with a line of its own.
  void give_up();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trainrun::output
