#include "launcher/discovery/script_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "launcher/base/exit_status.h"
#include "launcher/base/fd.h"
#include "launcher/discovery/complaints.h"
#include "launcher/io/shared_wait.h"
#include "launcher/io/spawn.h"

namespace trainrun {
namespace {

constexpr Duration left_open = milliseconds(500);  // for stdout to end, after its writer did
constexpr int longest_farewell_ms = 1000;          // of our destructor
constexpr int reads_a_turn = 16;                   // then others get their turn

// What leads the group has its parent's death signal, but what the command starts has none. So a guard stands
// in the group and reads from us: when we are gone, however we went, it kills the group and itself. The
// command is a child of its own, so that it may wait for all of its children without meeting the guard; and
// the leader takes the guard's end, or a launcher that is the first process of a container would collect
// them.
constexpr const char* guarded = R"(
exec 3<&0 </dev/null
(read -r line <&3; kill -9 0) >/dev/null 2>&1 &
guard=$!
exec 3<&-
command=$1
shift
/bin/sh -c "$command" sh "$@"
status=$?
exec 2>/dev/null
kill -9 "$guard"
wait "$guard"
exit "$status"
)";

}  // namespace

struct ScriptRun::State : std::enable_shared_from_this<State> {
  State(io::Loop& given_loop, const ScriptCommand& command, Handlers given)
      : loop(given_loop),
        handlers(std::move(given)),
        most_output(command.most_output),
        limit(command.limit),
        deadline(loop),
        out_wait(loop),
        err_wait(loop),
        end_wait(loop) {}

  Result<void> start(const ScriptCommand& command) {
    auto guard_pipe = make_pipe();
    auto out_pipe = make_pipe();
    auto err_pipe = make_pipe();
    for (const auto* pipe : {&guard_pipe, &out_pipe, &err_pipe}) {
      if (!*pipe) return tl::unexpected(pipe->error());
    }
    io::SpawnRequest request;
    request.path = "/bin/sh";
    request.argv = {"sh", "-c", guarded, "sh", command.command};
    request.argv.insert(request.argv.end(), command.arguments.begin(), command.arguments.end());
    request.env = io::as_words(command.environment);
    request.directory = ".";
    request.stdin_fd = guard_pipe->first.get();
    request.stdout_fd = out_pipe->second.get();
    request.stderr_fd = err_pipe->second.get();
    const auto spawned = io::spawn(request);
    if (spawned.pid < 0) {
      return fail(Code::try_again, ExitStatus::not_started(spawned.stage, spawned.error).describe());
    }
    pid = spawned.pid;
    pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd) {
      const auto why = errno_text(errno);
      kill_group();
      ::waitpid(std::exchange(pid, -1), nullptr, 0);
      return fail(Code::try_again, "pidfd_open: " + why);
    }
    guard = std::move(guard_pipe->second);
    out = std::move(out_pipe->first);
    err = std::move(err_pipe->first);
    set_nonblocking(out.get(), true);
    set_nonblocking(err.get(), true);
    return {};
  }

  void watch() {
    arm(limit, &State::late);
    if (const int error = wait(end_wait, pidfd, &State::ended); error != 0) {
      give_up("epoll: " + errno_text(error));
      linger();
      return reap();
    }
    wait_out();
    wait_err();
  }

  void arm(Duration from_now, void (State::*expired)()) {
    deadline.arm(io::Loop::now() + from_now, [weak = weak_from_this(), expired] {
      if (const auto state = weak.lock()) (*state.*expired)();
    });
  }
  int wait(io::SharedWait& with, const Fd& fd, void (State::*ready)()) {
    return with.wait(fd.get(), io::SharedWait::For::reading, [weak = weak_from_this(), ready] {
      if (const auto state = weak.lock()) (*state.*ready)();
    });
  }
  void wait_out() {
    if (answered) return;
    if (const int error = wait(out_wait, out, &State::hear_out); error != 0)
      give_up("epoll: " + errno_text(error));
  }
  void wait_err() {
    if (answered) return;
    if (const int error = wait(err_wait, err, &State::hear_err); error != 0)
      give_up("epoll: " + errno_text(error));
  }

  // Bytes of `fd` to `take`, until there are none (true: there may be more later), its end, or enough.
  template <class Take>
  static bool read_some(Fd& fd, int most_reads, const Take& take) {
    std::array<char, 64 * 1024> buffer;
    for (int i = 0; i < most_reads && fd;) {
      const auto count = ::read(fd.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
      if (count <= 0) {
        fd.reset();
        return false;
      }
      take(std::string_view(buffer.data(), static_cast<std::size_t>(count)));
      ++i;
    }
    return static_cast<bool>(fd);
  }

  void hear_out() {
    if (answered) return;
    const bool more = read_some(out, reads_a_turn, [this](std::string_view bytes) {
      if (output.size() <= most_output) output += bytes;
    });
    if (output.size() > most_output) {
      return give_up(fmt::format("printed more than {} MB, and was killed", most_output / 1'000'000));
    }
    if (more) {
      wait_out();
    } else if (leader_ended) {
      finish();
    }
  }

  void hear_err() {
    if (answered) return;
    if (read_some(err, reads_a_turn, [this](std::string_view bytes) { complaints.add(bytes); })) wait_err();
  }

  void ended() {
    leader_ended = true;
    if (answered) return reap();
    // What it has written is in the pipe; what its children may write still, is given a moment.
    if (out) {
      arm(left_open, &State::finish);
      hear_out();
    } else {
      finish();
    }
  }

  // The command has ended. It is not reaped yet, so its group's number is still its own.
  void finish() {
    if (answered) return;
    kill_group();
    const auto status = take_status();
    hear_last();
    if (!status) {
      answer(
          fail(Code::internal, "ended, but nobody knows how", "start trainrun with SIGCHLD at its default"));
    } else if (!status->success()) {
      answer(fail(Code::try_again, status->describe() + last_words()));
    } else {
      answer(std::move(output));
    }
    if (const auto tell = std::exchange(handlers.gone, nullptr)) tell();
  }

  void late() { give_up(fmt::format("did not end within {}, and was killed", format_duration(limit))); }

  // Answers now; the process is reaped when it can be.
  void give_up(std::string why) {
    if (answered) return;
    kill_group();
    hear_last();
    answer(fail(Code::timeout, std::move(why) + last_words()));
  }

  void reap() {
    take_status();
    if (const auto tell = std::exchange(handlers.gone, nullptr)) tell();
  }

  void answer(Result<std::string> result) {
    answered = true;
    deadline.disarm();
    out.reset();
    err.reset();
    if (const auto tell = std::exchange(handlers.answer, nullptr))
      tell({std::move(result), complaints.lines(), complaints.more()});
  }

  void hear_last() {
    read_some(err, reads_a_turn, [this](std::string_view bytes) { complaints.add(bytes); });
    complaints.end();
  }
  [[nodiscard]] std::string last_words() const {
    return complaints.last().empty() ? "" : "; its last words: " + complaints.last();
  }

  void kill_group() const {
    if (pid > 0) ::kill(-pid, SIGKILL);
  }

  std::optional<ExitStatus> take_status() {
    if (pid < 0) return std::nullopt;
    int raw = 0;
    pid_t taken = 0;
    while ((taken = ::waitpid(pid, &raw, WNOHANG)) < 0 && errno == EINTR) {
    }
    if (taken == 0) return std::nullopt;
    // What was killed with it falls to init; should that be us, its group still names it.
    const pid_t group = std::exchange(pid, -1);
    while (::waitpid(-group, nullptr, WNOHANG) > 0) {
    }
    if (taken < 0) return std::nullopt;  // somebody else took it: SIGCHLD was ignored before us
    return ExitStatus::from_wait(raw);
  }

  void leave() {
    handlers = {};
    answered = true;
    deadline.disarm();
    if (pid > 0) linger();
  }

  // A killed process ends at once, but for one that the kernel holds: that is left to init.
  void linger() {
    kill_group();
    pollfd waiting{pidfd.get(), POLLIN, 0};
    while (::poll(&waiting, 1, longest_farewell_ms) < 0 && errno == EINTR) {
    }
    take_status();
  }

  io::Loop& loop;
  Handlers handlers;
  const std::size_t most_output;
  const Duration limit;
  io::Timer deadline;
  io::SharedWait out_wait, err_wait, end_wait;
  pid_t pid = -1;  // until it is reaped
  Fd pidfd, guard, out, err;
  std::string output;
  Complaints complaints;
  bool leader_ended = false, answered = false;
};

ScriptRun::ScriptRun(io::Loop& loop, const ScriptCommand& command, Handlers handlers)
    : state_(std::make_shared<State>(loop, command, std::move(handlers))) {
  auto started = state_->start(command);
  loop.post([weak = std::weak_ptr(state_), started = std::move(started)] {
    const auto state = weak.lock();
    if (!state) return;
    if (started) return state->watch();
    state->answer(tl::unexpected(started.error()));
    state->reap();
  });
}

ScriptRun::~ScriptRun() { state_->leave(); }

}  // namespace trainrun
