#include "launcher/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "launcher/base/strings.h"
#include "launcher/host_problems.h"
#include "launcher/io/clock.h"

namespace trainrun {
namespace {

// An answer that takes longer is late; of whom nothing at all came for so long is silent instead, unless
// something came while an answer was late already.
constexpr Duration prompt = milliseconds(500), silence = seconds(5);

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

void Session::connected(Fd link, Opening opening) {
  found_here_ = std::move(opening.found_here);
  state_ = State::greeting;
  host_timeout_ = milliseconds(opening.greeting.host_timeout_ms);
  window_ = opening.job.credit;
  last_heard_ = io::Loop::now();
  answered_real_ = io::real_now();  // a stop before this is no excuse
  link_ = std::make_unique<io::FrameStream>(
      loop_, std::move(link), Fd(),
      io::FrameStream::Handlers{[this](const wire::Frame& frame) { receive(frame); },
                                [this](const std::string& reason) { lose(reason); },
                                [this] { last_heard_ = io::Loop::now(); }});
  link_->send(opening.greeting);
  link_->send(opening.job);
  doors_wanted_ = opening.doors.size();
  horovod_door_ = opening.doors.front();
  horovod_door_.kind = wire::DoorKind::horovod;
  for (const auto& door : opening.doors) link_->send(door);
  ping();
}

std::uint16_t Session::door_port(wire::DoorKind kind) const {
  const auto it = door_ports_.find(kind);
  return it == door_ports_.end() ? 0 : it->second;
}

void Session::ping() {
  const auto now = io::Loop::now();
  // A late timer says that it was us who stood still: what the agent said meanwhile waits to be read.
  if (ping_sequence_ > 0 && now - ping_sent_ > host_timeout_ / 2) last_heard_ = now;
  if (now - last_heard_ >= host_timeout_)
    return lose(fmt::format("no answer for {}", format_duration(now - last_heard_)));
  ping_sent_ = now;
  ask();
  // The time-out is kept to the moment, not to the next ping: that would be a quarter late, and later than
  // the agent, which gives us up half a second after it.
  ping_timer_.arm(std::min(now + host_timeout_ / 4, last_heard_ + host_timeout_), [this] { ping(); });
}

void Session::ask() {
  if (!link_) return;
  ping_sent_real_ = io::real_now();
  send(wire::Ping{++ping_sequence_});
  unanswered_.emplace_back(ping_sequence_, io::Loop::now());
}

// An agent answers in the order in which it is asked and has things to tell.
std::optional<Instant> Session::late_since() const {
  const auto now = io::Loop::now();
  if (!link_) return std::nullopt;
  auto since = now - answered_after_;
  if (!unanswered_.empty()) since = std::min(since, unanswered_.front().second);
  if (now - since < prompt) return std::nullopt;
  const bool known_to_be_slow = last_heard_ - since >= prompt;
  return known_to_be_slow || now - last_heard_ < silence ? std::optional(since) : std::nullopt;
}

std::optional<Instant> Session::silent_since() const {
  const bool asked = link_ && !unanswered_.empty();
  return asked && !late_since() && io::Loop::now() - last_heard_ >= silence ? std::optional(last_heard_)
                                                                            : std::nullopt;
}

void Session::receive(const wire::Frame& frame) {
  if (state_ == State::closed) return;
  switch (frame.type) {
    case wire::Hello::type: {
      const auto hello = wire::from_frame<wire::Hello>(frame);
      if (!hello || hello->version != wire::protocol_version)
        return lose("its agent speaks another protocol");
      agent_pid_ = hello->pid;
      return;
    }
    case wire::NoAgent::type: {
      const auto answer = wire::from_frame<wire::NoAgent>(frame);
      if (!answer || state_ != State::greeting) return lose("its agent sent a malformed message");
      const auto failed = handlers_.failed;
      close();
      return failed(
          {Code::try_again,
           fmt::format("{}: no agent can be started there: fork: {}", host_name_, errno_text(answer->error)),
           "see `ulimit -u`, and pids.max of the control group"});
    }
    case wire::Greeted::type: {
      auto answer = wire::from_frame<wire::Greeted>(frame);
      if (!answer) return lose("its agent sent a malformed message");
      if (std::exchange(is_greeted_, true)) return lose("its agent greeted twice");
      facts_ = std::move(answer->facts);
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
        const bool torch = door->kind == wire::DoorKind::torch_store;
        close();
        return failed({Code::try_again,
                       fmt::format("{}: no port on loopback for {}: {}", host_name_, name_of(door->kind),
                                   errno_text(door->error)),
                       door->error == EMFILE ? "raise the hard limit on open files there (ulimit -Hn)"
                       : torch
                           ? "widen --port-range; leave --master-port out: a free one is found at each start"
                           : "widen --port-range"});
      }
      door_ports_[door->kind] = door->port;
      return ready_if_complete();
    }
    case wire::Pong::type: {
      const auto pong = wire::from_frame<wire::Pong>(frame);
      if (!pong) return;
      while (!unanswered_.empty() && unanswered_.front().first <= pong->sequence) {
        answered_after_ = last_heard_ - unanswered_.front().second;
        unanswered_.pop_front();
      }
      if (pong->sequence != ping_sequence_) return;
      measure_clock(pong->at_ns);
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
  if (!is_greeted_ || is_prepared_) return lose("its agent sent a message out of order");
  if (answer.problems.empty()) {
    is_prepared_ = true;
    facts_.programs = answer.programs;
    job_directory_ = answer.job_directory;
    if (answer.programs.horovod) {
      ++doors_wanted_;
      link_->send(horovod_door_);
    }
    return ready_if_complete();
  }
  const auto failed = handlers_.failed;
  close();
  failed(explain_problems(host_name_, answer.problems, found_here_));
}

void Session::ready_if_complete() {
  if (state_ != State::greeting || !is_prepared_ || door_ports_.size() < doors_wanted_ ||
      offset_error_ == Duration::max())
    return;
  state_ = State::ready;
  handlers_.ready();
}

void Session::measure_clock(std::int64_t agent_ns) {
  const auto now = io::real_now();
  const auto error = (now - ping_sent_real_) / 2;
  // A machine that slept has another clock than before.
  const auto stopped_until = io::last_stop().second;
  const bool anew = offset_at_ < stopped_until && ping_sent_real_ >= stopped_until;
  answered_real_ = ping_sent_real_;
  if (!anew && error >= clock_error()) return;  // the quickest answer tells the clock best
  offset_error_ = error;
  offset_at_ = now;
  offset_ns_ = sum((ping_sent_real_ + error).time_since_epoch().count(), agent_ns, -1);
}

Duration Session::clock_error() const {
  if (offset_error_ == Duration::max()) return offset_error_;
  // Two hosts' clocks drift apart by up to 100 ppm.
  return offset_error_ + (io::real_now() - offset_at_) / 10'000;
}

Session::Mapped Session::map_time(std::int64_t agent_ns) const {
  if (same_clock_) return {io::running_at(Instant(Duration(agent_ns))), Duration::zero()};
  return {io::running_at(Instant(Duration(sum(offset_ns_, agent_ns, 1)))), clock_error()};
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
  const bool silent = io::Loop::now() - last_heard_ >= host_timeout_;
  const auto ours = silent ? std::string{} : why_given_up();
  const auto heard = last_heard_;
  // The loss first: who waits for the pause stops the whole process then.
  const auto pause_heard = std::exchange(pause_heard_, nullptr);
  close();
  if (before == State::greeting) {
    failed(Error{
        Code::bootstrap,
        fmt::format("{}: the agent ended before it was ready: {}", host_name_, ours.empty() ? reason : ours),
        "run `trainrun --check-hosts -v` with this host"});
  } else if (!ours.empty()) {
    lost({ours, heard, true, true});
  } else {
    lost({why_lost(reason, silent), heard, false, !silent});
  }
  if (pause_heard) pause_heard();
}

// An agent of this machine has no connection that could fail: it is the process that ended or stands still.
std::string Session::why_lost(const std::string& reason, bool silent) const {
  const bool ended = reason == "the connection was closed";
  if (same_clock_ && agent_pid_ != 0 && (ended || silent))
    return fmt::format("process {} (trainrun-agent) {}", agent_pid_, ended ? "ended" : "gave " + reason);
  return ended ? "its agent or the connection to it ended" : reason;
}

// An agent that hears nothing of us for the time-out ends its workers. One whose Link is gone after a stop of
// ours that came near to it, and from which no answer has come since, did so.
std::string Session::why_given_up() const {
  const auto [from, until] = io::last_stop();
  if (until - from < host_timeout_ / 2 || answered_real_ >= until) return {};
  return fmt::format("trainrun stood still for {}, and the agent there gave it up after --host-timeout, {}",
                     format_duration(until - from), format_duration(host_timeout_));
}

void Session::pause(bool on, std::function<void()> done) {
  if (!link_) return done();
  pause_heard_ = std::move(done);
  send(wire::Pause{on});
  ping();  // whose answer says that it was heard
}

void Session::pay_credit() {
  if (owed_ < window_ / 4) return;  // not a message for every line
  send(wire::Credit{owed_});
  owed_ = 0;
}

}  // namespace trainrun
