// Has another program tell the stack of a process: py-spy for Python, else gdb, if there is one in the job's
// PATH. It gets 5 s and may write 48 KiB.
//
// gdb stops the process while it looks, and one that is killed then can leave it stopped; so it is continued
// after that, unless it stood still before.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "launcher/base/fd.h"
#include "launcher/io/child.h"
#include "launcher/io/loop.h"

namespace trainrun::agent {

class StackTool {
 public:
  // `done` is called once, later, with what the program said. Nothing if no program fits or could be started.
  static std::unique_ptr<StackTool> start(io::Loop& loop, const std::string& search_path, pid_t target,
                                          std::function<void(std::string)> done);
  // Ends the program; `done` is not called any more. To be done only when the target is about to be ended
  // too: nobody continues it then.
  ~StackTool();

  [[nodiscard]] pid_t pid() const { return child_->pid(); }
  // A child of this process has ended that may be the program: takes it if it is.
  void reap() { child_->reap(); }

 private:
  StackTool(std::string name, pid_t target, std::function<void(std::string)> done);
  void ended(const io::ChildEnd& end);

  std::string name_;
  pid_t target_;
  std::uint64_t target_started_ = 0;
  Fd output_;
  std::function<void(std::string)> done_;
  std::unique_ptr<io::Child> child_;
};

}  // namespace trainrun::agent
