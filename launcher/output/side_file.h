// A file beside the job's output: --events, --journal. It never stops the job, nor does it make it wait: what
// is to be written waits in a queue with an end, and a file that takes no more is told once and left alone.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/base/error.h"
#include "launcher/base/fd.h"
#include "launcher/io/loop.h"
#include "launcher/output/file_threads.h"
#include "launcher/output/writer.h"

namespace trainrun::output {

// Of the FILE of such an option: N of `fd:N`; nothing: it is a path.
std::optional<int> side_descriptor(const std::string& target);
// That descriptor, closed to our children. To be asked before anything else is opened, so that N cannot be
// one of our own. `option`, as in "--events", begins messages.
Result<Fd> take_descriptor(std::string_view option, const std::string& target, int number);
// "--events: cannot write to 'x': ...; the job goes on without it"
tl::unexpected<Error> cannot_write(std::string_view option, const std::string& target,
                                   const std::string& why);
tl::unexpected<Error> cannot_open(std::string_view option, const std::string& target, int error);

class SideFile {
 public:
  struct Handlers {
    std::function<void(const std::string&)> say;  // a line for the user
    // The queue is empty: what is to be written now, if anything.
    std::function<std::string()> emptied = [] { return std::string(); };
  };
  // `most_queued`: bytes that may wait.
  SideFile(io::Loop& loop, Fd file, std::string option, std::string name, std::size_t most_queued,
           Handlers handlers);

  [[nodiscard]] bool has_room(std::size_t bytes) const { return queue_.size() + bytes <= most_queued_; }
  [[nodiscard]] bool dead() const { return dead_; }
  void queue(std::string_view bytes);  // for which there is room; pump() writes it
  void pump();
  // Calls `over` when all is written, or will not be: at `until` at the latest. May be at once.
  void close(Instant until, std::function<void()> over);
  void end_by(Instant until);  // after close(): somebody waits

 private:
  void failed(int error);
  [[nodiscard]] bool writing() const;

  const Fd file_;
  const std::string option_, name_;
  const std::size_t most_queued_;
  const Handlers handlers_;
  FileThreads files_;  // its own: what waits here holds back no rank
  Writer writer_;
  io::Timer limit_;
  std::string queue_;
  bool dead_ = false;
  std::function<void()> over_;
};

}  // namespace trainrun::output
