// A process that we start and wait for: its start, what goes in and comes out, who ends it and when, and that
// nothing of it is left. Scripts of the discovery, ssh and the programs that show stacks are such; workers
// are not (decisions/0018).
//
// Everything happens on the loop's thread, and only one thread of a process may start children.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "launcher/base/exit_status.h"
#include "launcher/base/time.h"
#include "launcher/io/loop.h"

namespace trainrun::io {

// stdout or stderr of a child: a descriptor that is given to it, or a pipe that is read here.
struct ChildOutput {
  int fd = -1;  // given, and stays the caller's
  // Of a pipe, each time that bytes have come; may destroy the child. Empty: they are kept for ChildEnd.
  std::function<void(std::string_view)> heard{};
  std::size_t most = std::numeric_limits<std::size_t>::max();  // bytes; a pipe that gives more ends the child
};

struct ChildRequest {
  std::string path;  // of the executable; see find_program
  std::vector<std::string> argv{};
  std::vector<std::string> env{};  // NAME=VALUE each, and nothing else
  std::string directory = ".";
  int stdin_fd = -1;        // given, and stays the caller's; -1: /dev/null
  bool stdin_pipe = false;  // instead: a pipe for write(), closed by close_stdin() or when the child is gone
  ChildOutput out{}, err{};
  std::optional<Duration> limit{};  // then it is ended
  Duration grace{};                 // between TERM and KILL; zero: KILL at once
  // Something else may hold its pipes: how long after its end they are still listened to.
  Duration drain = milliseconds(500);
  // What is left of its process group at its end is killed. Without it that is left alone.
  bool whole_group = true;
  // How long the destructor waits for a killed process. One that the kernel holds longer is left to init.
  Duration farewell = seconds(1);
  // SIGHUP stays ignored in it (nohup).
  bool keep_hangup_ignored = false;
};

struct ChildEnd {
  enum class By : std::uint8_t { itself, limit, too_much, order };  // what ended it
  By by = By::itself;
  // Nothing: nobody can know (SIGCHLD was ignored before us), or it was killed and the kernel holds it still.
  std::optional<ExitStatus> status;
  std::string out, err;  // of pipes that nobody else hears
};

class Child {
 public:
  struct Handlers {
    // Once: it has ended and its pipes have too, or the drain time is over, or it does not even end after
    // KILL.
    std::function<void(ChildEnd)> ended;
    // Once, after `ended`: it has been reaped. Late or never if the kernel holds it. May be empty.
    std::function<void()> gone{};
  };
  // The child leads a session and a process group of its own and dies with us (see spawn). Handlers are
  // called from the loop, never from inside a call but reap(), and may destroy the object.
  // The error is an ExitStatus::not_started.
  static tl::expected<std::unique_ptr<Child>, ExitStatus> start(Loop& loop, const ChildRequest& request,
                                                                Handlers handlers);
  // Kills and reaps; nothing is called any more.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const;  // also after its end
  // Queued without bound. A child that does not read any more gets nothing, which is no error. SIGPIPE must
  // be ignored.
  void write(std::string_view bytes);
  void close_stdin();             // after what was written
  void signal(int number) const;  // to its group, until it has been reaped
  // TERM, the grace, KILL; `ended` follows.
  void end();
  // For a process that reaps whatever child has ended: this one's status is taken here, if it has ended or
  // does so within this time, for which it blocks.
  void reap(Duration within = Duration::zero());

  // Ends them all, blocking: first they may end by themselves, then TERM, then KILL; `each` time at the most.
  static void end_all(std::vector<std::unique_ptr<Child>> children, Duration each);

 private:
  struct State;
  explicit Child(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace trainrun::io
