// Where --events writes: a file, or a descriptor that was inherited. What the queue cannot hold is dropped
// and counted there.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "launcher/base/error.h"
#include "launcher/base/fd.h"
#include "launcher/io/loop.h"
#include "launcher/output/side_file.h"

namespace trainrun::output {

// To be asked before anything else is opened, see take_descriptor(). Lines are added to a file that exists.
Result<Fd> open_events(const std::string& target);

class EventsFile {
 public:
  // `most_queued`: bytes that may wait. `say`: a line for the user.
  EventsFile(io::Loop& loop, Fd file, std::string name, std::function<void(const std::string&)> say,
             std::size_t most_queued = 1u << 20);

  void write(const std::string& line);  // one event with its newline
  void close(Instant until, std::function<void()> over) { file_.close(until, std::move(over)); }
  void end_by(Instant until) { file_.end_by(until); }

 private:
  std::string dropped();

  SideFile file_;
  std::size_t dropped_ = 0;  // lines, since the queue
};

}  // namespace trainrun::output
