// Where --journal writes. A journal with a gap could not be replayed: it ends where the queue has no room,
// with one line for the user.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "launcher/base/error.h"
#include "launcher/base/fd.h"
#include "launcher/core/journal.h"
#include "launcher/io/loop.h"
#include "launcher/output/side_file.h"

namespace trainrun::output {

// To be asked before anything else is opened, see take_descriptor(). In a directory the file gets the name of
// the job. A file that exists is written anew if it holds a journal that nobody writes to, and left alone
// else.
Result<Fd> open_journal(const std::string& target, const std::string& job_id);

class JournalFile {
 public:
  JournalFile(io::Loop& loop, Fd file, std::string name, std::function<void(const std::string&)> say,
              std::size_t most_queued = 16u << 20);

  void begin(const core::journal::Header& header);
  void step(Instant now, const core::JobEvent& event, const core::JobActions& actions);
  void close(Instant until, std::function<void()> over);
  void end_by(Instant until) { file_.end_by(until); }

 private:
  void write(const std::string& record);

  io::Loop& loop_;
  const std::string name_;
  const std::function<void(const std::string&)> say_;
  Instant began_{};
  bool posted_ = false;                  // what is queued is written a turn later
  bool cut_ = false, cut_told_ = false;  // the queue was full; the file says so
  SideFile file_;
};

}  // namespace trainrun::output
