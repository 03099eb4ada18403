// Where --events writes: a file, or a descriptor that was inherited. It never stops the job: what the queue
// cannot hold is dropped and counted there, and a file that takes no more is told once and left alone.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "launcher/base/error.h"
#include "launcher/base/fd.h"
#include "launcher/io/loop.h"
#include "launcher/output/file_threads.h"
#include "launcher/output/writer.h"

namespace trainrun::output {

// Of the FILE of --events: N of `fd:N`; nothing: it is a path.
std::optional<int> events_descriptor(const std::string& target);

// To be asked before anything else is opened, so that N cannot be a descriptor of our own. Lines are added to
// a file that exists.
Result<Fd> open_events(const std::string& target);

class EventsFile {
 public:
  // `most_queued`: bytes that may wait. `say`: a line for the user.
  EventsFile(io::Loop& loop, Fd file, std::string name, std::function<void(const std::string&)> say,
             std::size_t most_queued = 1u << 20);

  void write(const std::string& line);  // one event with its newline
  // Calls `over` when all is written, or will not be: at `until` at the latest. May be at once.
  void close(Instant until, std::function<void()> over);
  void end_by(Instant until);  // after close(): somebody waits

 private:
  void pump();
  void failed(int error);
  [[nodiscard]] bool writing() const;

  const Fd file_;
  const std::string name_;
  const std::function<void(const std::string&)> say_;
  const std::size_t most_queued_;
  FileThreads files_;  // its own: what waits here holds back no rank
  Writer writer_;
  io::Timer limit_;
  std::string queue_;        // whole lines
  std::size_t dropped_ = 0;  // lines, since the queue
  bool dead_ = false;
  std::function<void()> over_;
};

}  // namespace trainrun::output
