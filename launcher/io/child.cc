#include "launcher/io/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/process/v2/error.hpp>  // before the next one, which does not compile without it (1.81)
#include <boost/process/v2/process_handle.hpp>
#include <cerrno>
#include <utility>

#include "launcher/base/fd.h"
#include "launcher/base/pipe.h"
#include "launcher/io/clock.h"
#include "launcher/io/spawn.h"
#include "launcher/io/turn.h"

namespace trainrun::io {
namespace {

using boost::asio::posix::stream_descriptor;
using Process = boost::process::v2::basic_process_handle<boost::asio::io_context::executor_type>;

constexpr int reads_a_turn = 16;        // then others get their turn
constexpr Duration dying = seconds(1);  // after KILL; what takes longer hangs in the kernel

// A pipe of the child that is read here.
struct Source {
  Source(boost::asio::io_context& context, const ChildOutput& wanted)
      : pipe(context), heard(wanted.heard), most(wanted.most) {}
  stream_descriptor pipe;
  std::function<void(std::string_view)> heard;
  std::size_t most, count = 0;
  std::string kept;
};

void close_quietly(stream_descriptor& descriptor) {
  boost::system::error_code ignored;
  descriptor.close(ignored);
}

// Returns when one of these has ended, when the time (real: the loop does not beat meanwhile) has come, or
// earlier.
void wait_for_end(std::vector<pollfd> pidfds, Instant until) {
  const auto left = std::chrono::ceil<milliseconds>(until - real_now()).count();
  ::poll(pidfds.data(), pidfds.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
}

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}

}  // namespace

struct Child::State : std::enable_shared_from_this<State> {
  State(Loop& loop, const ChildRequest& request, Handlers given)
      : context(loop.context()),
        handlers(std::move(given)),
        grace(request.grace),
        drain(request.drain),
        farewell(request.farewell),
        whole_group(request.whole_group),
        out(context, request.out),
        err(context, request.err),
        in(context),
        end_seen(context),
        timer(loop) {}

  // 0, or an errno with the stage.
  ExitStatus start(const ChildRequest& request) {
    const auto failed = [](int error) { return ExitStatus::not_started(SpawnStage::files, error); };
    FdPair in_ends, out_ends, err_ends;
    Fd null;
    SpawnRequest spawning;
    spawning.stdin_fd = request.stdin_fd;
    spawning.stdout_fd = request.out.fd;
    spawning.stderr_fd = request.err.fd;
    if (request.stdin_pipe) {
      if (const int error = open_pipe(in_ends); error != 0) return failed(error);
      spawning.stdin_fd = in_ends.first.get();
    } else if (request.stdin_fd < 0) {
      null = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!null) return failed(errno);
      spawning.stdin_fd = null.get();
    }
    if (request.out.fd < 0) {
      if (const int error = open_pipe(out_ends); error != 0) return failed(error);
      spawning.stdout_fd = out_ends.second.get();
    }
    if (request.err.fd < 0) {
      if (const int error = open_pipe(err_ends); error != 0) return failed(error);
      spawning.stderr_fd = err_ends.second.get();
    }
    spawning.path = request.path;
    spawning.argv = request.argv;
    spawning.keep_hangup_ignored = request.keep_hangup_ignored;
    spawning.env = as_words(request.env);
    spawning.directory = request.directory;
    const auto spawned = spawn(spawning);
    if (spawned.pid < 0) return ExitStatus::not_started(spawned.stage, spawned.error);
    pid = spawned.pid;
    int error = adopt();
    if (error == 0) error = take(out.pipe, out_ends.first);
    if (error == 0) error = take(err.pipe, err_ends.first);
    if (error == 0) error = take(in, in_ends.second);
    if (error != 0) {
      ::kill(-pid, SIGKILL);
      while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
      process.reset();
      return failed(error);
    }
    return ExitStatus::exited(0);
  }

  // Boost's handle takes the status; a second name of the same pidfd tells of the end without taking it,
  // since the group's number is ours only until then.
  int adopt() {
    Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd) return errno;
    Fd second(::fcntl(pidfd.get(), F_DUPFD_CLOEXEC, 3));
    if (!second) return errno;
    if (const int error = take(end_seen, second); error != 0) return error;
    try {
      process.emplace(context.get_executor(), pid, pidfd.get());
      static_cast<void>(pidfd.release());
    } catch (const boost::system::system_error& error) {
      return error.code().value();
    }
    return 0;
  }

  static int take(stream_descriptor& descriptor, Fd& fd) {
    if (!fd) return 0;
    set_nonblocking(fd.get(), true);
    boost::system::error_code error;
    descriptor.assign(fd.get(), error);
    if (!error) static_cast<void>(fd.release());
    return error.value();
  }

  void watch(std::optional<Duration> limit) {
    if (limit) arm(*limit, [](State& it) { it.end(ChildEnd::By::limit); });
    when(end_seen, stream_descriptor::wait_read, [](State& it) { it.exited(); });
    listen(out);
    listen(err);
  }

  void arm(Duration from_now, void (*expired)(State&)) {
    timer.arm(Loop::now() + from_now, [weak = weak_from_this(), expired] {
      if (const auto state = weak.lock()) expired(*state);
    });
  }
  void when(stream_descriptor& descriptor, stream_descriptor::wait_type what, void (*ready)(State&)) {
    descriptor.async_wait(what, [weak = weak_from_this(), ready](const boost::system::error_code& error) {
      const Turn turn;
      const auto state = weak.lock();
      if (state && !error && !state->over) ready(*state);
    });
  }
  void listen(Source& source) {
    if (!source.pipe.is_open()) return;
    if (&source == &out) when(out.pipe, stream_descriptor::wait_read, [](State& it) { it.hear(it.out); });
    if (&source == &err) when(err.pipe, stream_descriptor::wait_read, [](State& it) { it.hear(it.err); });
  }

  void hear(Source& source) {
    read(source);
    if (over) return;
    if (!source.pipe.is_open() && has_exited) return finish_when_quiet();
    listen(source);
  }

  // What is there, up to its end, too much, or enough for a turn.
  void read(Source& source) {
    std::array<char, 64 * 1024> buffer;
    for (int i = 0; i < reads_a_turn && source.pipe.is_open() && !over;) {
      const auto count = ::read(source.pipe.native_handle(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (count <= 0) return close_quietly(source.pipe);
      ++i;
      source.count += static_cast<std::size_t>(count);
      if (source.count > source.most) {
        kill(ChildEnd::By::too_much);  // first: of a pipe that is closed it might die before, by SIGPIPE
        return close_quietly(source.pipe);
      }
      const std::string_view bytes(buffer.data(), static_cast<std::size_t>(count));
      if (source.heard) {
        const auto heard = source.heard;  // which may destroy the child, and with it this
        heard(bytes);
      } else {
        source.kept += bytes;
      }
    }
  }

  void end(ChildEnd::By why) {
    if (has_exited || ending) return;
    if (grace == Duration::zero()) return kill(why);
    ending = true;
    by = why;
    signal(SIGTERM);
    signal(SIGCONT);  // a stopped process would not hear it
    arm(grace, [](State& it) { it.kill(it.by); });
  }

  void kill(ChildEnd::By why) {
    if (has_exited) {  // too much, from what it left behind
      by = why;
      return;
    }
    ending = true;
    by = why;
    signal(SIGKILL);
    arm(dying, [](State& it) { it.tell(); });
  }

  // Asio may wake a wait too early: its states of descriptors are used again, and an event of the one before
  // can still be on its way.
  void exited() {
    if (has_exited) return;
    if (!has_ended()) return when(end_seen, stream_descriptor::wait_read, [](State& it) { it.exited(); });
    has_exited = true;
    if (told) return finish();
    arm(drain, [](State& it) { it.finish(); });
    read(out);
    if (!over) read(err);
    if (!over) finish_when_quiet();
  }

  void finish_when_quiet() {
    if (!out.pipe.is_open() && !err.pipe.is_open()) finish();
  }

  // It has ended, and is taken only now: until here its group's number was surely its own.
  void finish() {
    take_status();
    if (!told) {
      read(out);
      if (!over) read(err);
      if (!over) tell();
    }
    if (over) return;
    if (const auto gone = std::exchange(handlers.gone, nullptr)) gone();
  }

  void tell() {
    told = true;
    timer.disarm();
    for (auto* pipe : {&out.pipe, &err.pipe}) close_quietly(*pipe);
    const auto tells = std::exchange(handlers.ended, nullptr);
    if (tells) tells({by, status, std::move(out.kept), std::move(err.kept)});
  }

  void signal(int number) const {
    if (process) ::kill(-pid, number);
  }

  [[nodiscard]] bool has_ended() { return !process || is_readable(end_seen.native_handle()); }

  // Once it has ended.
  void take_status() {
    if (!process) return;
    if (whole_group) ::kill(-pid, SIGKILL);
    boost::process::v2::native_exit_code_type raw = 0;
    boost::system::error_code error;
    process->running(raw, error);
    process.reset();
    for (auto* descriptor : {&end_seen, &in}) close_quietly(*descriptor);
    if (!error) status = ExitStatus::from_wait(raw);  // an error: somebody else took it
    // What was killed with it falls to init; should that be us, its group still names it.
    while (whole_group && ::waitpid(-pid, nullptr, WNOHANG) > 0) {
    }
  }

  void leave() {
    over = true;
    handlers = {};
    timer.disarm();
    if (!has_ended()) signal(SIGKILL);
    for (const auto until = real_now() + farewell; !has_ended() && real_now() < until;)
      wait_for_end({{end_seen.native_handle(), POLLIN, 0}}, until);
    if (has_ended()) take_status();
  }

  void write() {
    writing = false;
    while (!to_write.empty() && in.is_open()) {
      const auto count = ::write(in.native_handle(), to_write.data(), to_write.size());
      if (count > 0) {
        to_write.erase(0, static_cast<std::size_t>(count));
      } else if (count < 0 && errno == EAGAIN) {
        writing = true;
        return when(in, stream_descriptor::wait_write, [](State& it) { it.write(); });
      } else if (count == 0 || errno != EINTR) {
        closing = true;  // it reads no more
        to_write.clear();
      }
    }
    if (closing) close_quietly(in);
  }

  boost::asio::io_context& context;
  Handlers handlers;
  const Duration grace, drain, farewell;
  const bool whole_group;
  Source out, err;
  stream_descriptor in, end_seen;
  Timer timer;  // the limit, then the steps of the end, then the drain
  pid_t pid = -1;
  std::optional<Process> process;  // until it is reaped
  std::string to_write;
  bool writing = false, closing = false;
  ChildEnd::By by = ChildEnd::By::itself;
  std::optional<ExitStatus> status;
  bool ending = false, has_exited = false, told = false;
  bool over = false;  // the Child is gone
};

Child::Child(std::shared_ptr<State> state) : state_(std::move(state)) {}
Child::~Child() { state_->leave(); }

tl::expected<std::unique_ptr<Child>, ExitStatus> Child::start(Loop& loop, const ChildRequest& request,
                                                              Handlers handlers) {
  auto state = std::make_shared<State>(loop, request, std::move(handlers));
  if (auto started = state->start(request); !started.success()) return tl::unexpected(std::move(started));
  state->watch(request.limit);
  return std::unique_ptr<Child>(new Child(std::move(state)));
}

pid_t Child::pid() const { return state_->pid; }
void Child::signal(int number) const { state_->signal(number); }
void Child::end() { state_->end(ChildEnd::By::order); }

void Child::write(std::string_view bytes) {
  if (state_->closing || !state_->in.is_open()) return;
  state_->to_write += bytes;
  if (!state_->writing) state_->write();
}

void Child::close_stdin() {
  state_->closing = true;
  if (!state_->writing) state_->write();
}

void Child::reap(Duration within) {
  const auto state = state_;
  if (!state->process) return;
  if (within > Duration::zero())
    wait_for_end({{state->end_seen.native_handle(), POLLIN, 0}}, real_now() + within);
  if (!state->has_ended()) return;
  state->take_status();
  state->exited();
}

void Child::end_all(std::vector<std::unique_ptr<Child>> children, Duration each) {
  for (const int number : {0, SIGTERM, SIGKILL}) {
    if (number != 0) {
      for (const auto& child : children) child->signal(number);
    }
    for (const auto until = real_now() + each; !children.empty() && real_now() < until;) {
      std::vector<pollfd> pidfds;
      for (const auto& child : children)
        pidfds.push_back({child->state_->process ? child->state_->end_seen.native_handle() : -1, POLLIN, 0});
      const bool all_live = std::none_of(children.begin(), children.end(),
                                         [](const auto& child) { return child->state_->has_ended(); });
      if (all_live) wait_for_end(std::move(pidfds), until);
      std::erase_if(children, [](const auto& child) { return child->state_->has_ended(); });
    }
  }
}

}  // namespace trainrun::io
