#include "launcher/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/base/strings.h"

namespace trainrun {
namespace {

// What helps depends on why the directory cannot be made; `path` is the one that was tried last.
std::string advice_for_job_directory(const std::string& path, int error) {
  const auto parent = path.substr(0, path.rfind('/'));
  if (error == ENOSPC || error == EDQUOT)
    return fmt::format("free space in {} there, or name another directory with -x TMPDIR=DIR",
                       quoted(parent, 300));
  if (parent == "/tmp" || parent == "/dev/shm")  // the last resort, when no TMPDIR is set
    return fmt::format("see why {} cannot be written there, or name another directory with -x TMPDIR=DIR",
                       quoted(parent, 300));
  return fmt::format(
      "TMPDIR is {} there: make that a directory which you may write to, or name another "
      "with -x TMPDIR=DIR",
      quoted(parent, 300));
}

Error explain(const std::string& host, const wire::Problem& problem) {
  const auto why = errno_text(problem.error);
  switch (problem.kind) {
    case wire::Problem::Kind::directory:
      return {Code::config,
              fmt::format("{}: no usable directory {}: {}", host, quoted(problem.what, 300), why),
              "make it there, or choose one that all hosts have with --wdir"};
    case wire::Problem::Kind::program: {
      const bool missing = problem.error == ENOENT || problem.error == ENOTDIR;
      return {missing ? Code::not_found : Code::not_executable,
              fmt::format("{}: program {} {}: {}", host, quoted(problem.what, 300),
                          missing ? "not found" : "cannot be executed", why),
              missing ? "check the spelling, copy it there, or forward a PATH that finds it (-x PATH)"
                      : "chmod +x, or name its interpreter"};
    }
    case wire::Problem::Kind::script:
      return {problem.error == ENOENT || problem.error == ENOTDIR ? Code::not_found : Code::not_executable,
              fmt::format("{}: script {} cannot be read: {}", host, quoted(problem.what, 300), why),
              "check the spelling, or copy it there; a relative path is taken from the working directory "
              "(--wdir)"};
    case wire::Problem::Kind::job_directory:
      return {Code::bootstrap,
              fmt::format("{}: cannot make the job's private directory {}: {}", host,
                          quoted(problem.what, 300), why),
              advice_for_job_directory(problem.what, problem.error)};
  }
  return {};
}

// a + sign * b, where an agent may have sent any number.
std::int64_t sum(std::int64_t a, std::int64_t b, int sign) {
  const auto other = static_cast<std::uint64_t>(b);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + (sign < 0 ? 0 - other : other));
}

}  // namespace

Session::Session(io::Loop& loop, std::string host_name, bool same_clock, Handlers handlers)
    : loop_(loop),
      host_name_(std::move(host_name)),
      same_clock_(same_clock),
      handlers_(std::move(handlers)),
      ping_timer_(loop) {}
Session::~Session() = default;

void Session::connected(Fd link, const wire::Setup& setup, std::uint16_t first_port,
                        std::uint16_t last_port) {
  state_ = State::greeting;
  host_timeout_ = milliseconds(setup.host_timeout_ms);
  window_ = setup.credit;
  last_heard_ = io::Loop::now();
  link_ = std::make_unique<io::FrameStream>(
      loop_, std::move(link), Fd(),
      io::FrameStream::Handlers{[this](const wire::Frame& frame) { receive(frame); },
                                [this](const std::string& reason) { lose(reason); }});
  link_->send(setup);
  link_->send(wire::OpenDoor{first_port, last_port});
  ping();
}

void Session::ping() {
  const auto now = io::Loop::now();
  // A late timer says that it was us who stood still: what the agent said meanwhile waits to be read.
  if (paused_ || (ping_sequence_ > 0 && now - ping_sent_ > host_timeout_ / 2)) last_heard_ = now;
  if (now - last_heard_ >= host_timeout_)
    return lose(fmt::format("no answer for {}", format_duration(now - last_heard_)));
  ping_sent_ = now;
  send(wire::Ping{++ping_sequence_});
  // The time-out is kept to the moment, not to the next ping: that would be a quarter late, and later than
  // the agent, which gives us up half a second after it.
  ping_timer_.arm(std::min(now + host_timeout_ / 4, last_heard_ + host_timeout_), [this] { ping(); });
}

void Session::receive(const wire::Frame& frame) {
  if (state_ == State::closed) return;
  last_heard_ = io::Loop::now();
  switch (frame.type) {
    case wire::Hello::type: {
      const auto hello = wire::from_frame<wire::Hello>(frame);
      if (!hello || hello->version != wire::protocol_version)
        return lose("its agent speaks another protocol");
      return;
    }
    case wire::Prepared::type: {
      const auto answer = wire::from_frame<wire::Prepared>(frame);
      if (!answer) return lose("its agent sent a malformed message");
      return prepared(*answer);
    }
    case wire::DoorOpened::type: {
      const auto door = wire::from_frame<wire::DoorOpened>(frame);
      if (!door) return lose("its agent sent a malformed message");
      if (door->error != 0) {
        const auto failed = handlers_.failed;
        close();
        return failed({Code::try_again,
                       fmt::format("{}: no port on loopback for its ranks' rendezvous: {}", host_name_,
                                   errno_text(door->error)),
                       "widen --port-range"});
      }
      door_port_ = door->port;
      door_known_ = true;
      return ready_if_complete();
    }
    case wire::Pong::type: {
      const auto pong = wire::from_frame<wire::Pong>(frame);
      if (!pong || pong->sequence != ping_sequence_) return;
      const auto error = (last_heard_ - ping_sent_) / 2;
      if (error < clock_error(last_heard_)) {  // the quickest answer tells the clock best
        offset_error_ = error;
        offset_at_ = last_heard_;
        offset_ns_ = sum((ping_sent_ + error).time_since_epoch().count(), pong->at_ns, -1);
      }
      if (const auto heard = std::exchange(pause_heard_, nullptr)) heard();
      return ready_if_complete();
    }
    case wire::Stopped::type: {
      const auto stopped = wire::from_frame<wire::Stopped>(frame);
      if (!stopped) return lose("its agent sent a malformed message");
      const auto told = handlers_.stopped;
      close();
      return told(*stopped);
    }
    default:
      return handlers_.message(frame);
  }
}

void Session::prepared(const wire::Prepared& answer) {
  prepared_ = answer;
  if (answer.problems.empty()) {
    is_prepared_ = true;
    return ready_if_complete();
  }
  // Several problems of one host are one entry of the report; the first decides its kind.
  auto error = explain(host_name_, answer.problems.front());
  for (std::size_t i = 1; i < answer.problems.size(); ++i)
    error.message += "; " + explain(host_name_, answer.problems[i]).message;
  const auto failed = handlers_.failed;
  close();
  failed(std::move(error));
}

void Session::ready_if_complete() {
  if (state_ != State::greeting || !is_prepared_ || !door_known_ || offset_error_ == Duration::max()) return;
  state_ = State::ready;
  handlers_.ready();
}

Duration Session::clock_error(Instant now) const {
  if (offset_error_ == Duration::max()) return offset_error_;
  return offset_error_ + (now - offset_at_) / 10'000;  // two hosts' clocks drift apart by up to 100 ppm
}

Session::Mapped Session::map_time(std::int64_t agent_ns) const {
  if (same_clock_) return {Instant(Duration(agent_ns)), Duration::zero()};
  return {Instant(Duration(sum(offset_ns_, agent_ns, 1))), clock_error(io::Loop::now())};
}

void Session::stop() {
  if (!link_) return;
  state_ = State::closing;
  send(wire::Stop{});
}

void Session::close() {
  state_ = State::closed;
  ping_timer_.disarm();
  link_.reset();
  // Who waits for every agent to hear of the pause does not wait for one that is gone.
  if (const auto heard = std::exchange(pause_heard_, nullptr)) heard();
}

void Session::lose(const std::string& reason) {
  const auto before = state_;
  if (before == State::closed) return;
  const auto failed = handlers_.failed;
  const auto lost = handlers_.lost;
  close();
  if (before == State::greeting) {
    return failed(Error{Code::bootstrap,
                        fmt::format("{}: the agent ended before it was ready: {}", host_name_, reason),
                        "run `trainrun --check-hosts -v` with this host"});
  }
  lost(reason == "the connection was closed" ? "its agent or the connection to it ended" : reason);
}

void Session::pause(bool on, std::function<void()> done) {
  if (!link_) return done();
  paused_ = on;
  last_heard_ = io::Loop::now();  // its silence while we were stopped was ours
  ping_sent_ = last_heard_;
  pause_heard_ = std::move(done);
  send(wire::Pause{on});
  ping();
}

void Session::pay_credit() {
  if (owed_ < window_ / 4) return;  // not a message for every line
  send(wire::Credit{owed_});
  owed_ = 0;
}

}  // namespace trainrun
