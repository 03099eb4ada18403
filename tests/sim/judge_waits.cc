#include "tests/sim/judge_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <variant>

namespace trainrun::sim {

using namespace core;
using Phase = JobPhase;

namespace {

constexpr Duration after_kill = seconds(5), explained_after = seconds(1), hosts_named_after = seconds(5);
constexpr Duration for_last_output = seconds(1), to_say_goodbye = seconds(3),
                   longest_inspection = seconds(15);
constexpr Duration dies_later = seconds(2), proves_itself = seconds(60);
constexpr Duration longest_retry = seconds(30), agent_notices_later = seconds(2);

// Each of these is waited for once: armed anew while it runs, it would never pass.
constexpr auto once = {Deadline::start, Deadline::job,    Deadline::world,   Deadline::settle,
                       Deadline::cause, Deadline::finish, Deadline::inspect, Deadline::backoff,
                       Deadline::stop,  Deadline::sweep};

}  // namespace

Duration Waits::gathering() const {
  const auto& spec = scenario_.spec;
  return spec.elastic.enabled() ? std::min(spec.start_timeout, spec.elastic.timeout) : spec.start_timeout;
}

void Waits::event(const JobEvent& event, Instant now) {
  now_ = now;
  begins_ = std::holds_alternative<Begin>(event);
  asks_ = std::holds_alternative<MemberWaits>(event);
  if (begins_) began_ = now;
  user_asks_again_ = user_asked_ && std::holds_alternative<UserSignal>(event);
  user_asked_ = user_asked_ || std::holds_alternative<UserSignal>(event);
  const auto* passed = std::get_if<DeadlinePassed>(&event);
  put_off_.reset();
  if (passed == nullptr) return;
  if (!passed->late.empty()) put_off_ = passed->deadline;
  armed_.erase(passed->deadline);
  passed_.insert(passed->deadline);
}

void Waits::action(const JobAction& action, Instant now) {
  now_ = now;
  if (const auto* arm = std::get_if<Arm>(&action)) arms(arm->deadline, arm->at);
  if (const auto* disarm = std::get_if<Disarm>(&action)) armed_.erase(disarm->deadline);
  if (const auto* signal = std::get_if<SignalWorkers>(&action)) kills(*signal);
  if (std::holds_alternative<BeginWorld>(action)) {
    world_begins_ = true;
    told_at_.reset();
    passed_.erase(Deadline::join);
    forbid(true, Deadline::finish, "a world begins");
  }
  if (const auto* end = std::get_if<EndGeneration>(&action)) {
    killed_ = killed_all_ = false;
    if (end->job_ends && !ends_at_) ends_at_ = now;
    told_at_.reset();
  }
  if (const auto* announce = std::get_if<Announce>(&action)) announced_leave_ = announce->hosts_leave;
  const auto* tell = std::get_if<Tell>(&action);
  if (tell == nullptr) return;
  if (std::holds_alternative<notice::GenerationFormed>(tell->notice)) told_at_ = now;
  if (const auto* phase = std::get_if<notice::PhaseChanged>(&tell->notice)) {
    if (phase->to == Phase::draining) passed_.erase(Deadline::grace), killed_ = killed_all_ = false;
    if (phase->to == Phase::closing) passed_.erase(Deadline::notice), ends_at_ = now;
  }
}

void Waits::kills(const SignalWorkers& order) {
  if (order.number != SIGKILL) return;
  killed_ = true;
  killed_all_ = killed_all_ || order.workers.empty();
}

void Waits::arms(Deadline deadline, Instant at) {
  if (!suits(deadline, at))
    fail_(fmt::format("deadline {} is armed for {} from now, and not for as long as it should",
                      to_string(deadline), format_duration(at - now_)));
  if (armed_.contains(deadline) && !hurries(deadline, at) &&
      std::find(once.begin(), once.end(), deadline) != once.end())
    fail_(fmt::format("deadline {} is put off", to_string(deadline)));
  if (deadline == Deadline::join && asks_) asked_at_ = now_;
  armed_[deadline] = at;
  passed_.erase(deadline);
}

// Who reports late is looked at again at once.
bool Waits::hurries(Deadline deadline, Instant at) const {
  return user_asks_again_ && (deadline == Deadline::kill || deadline == Deadline::sweep) &&
         armed_.contains(deadline) && at == now_;
}

// The lengths that the manual, core/README.md and job_event.h name.
bool Waits::suits(Deadline deadline, Instant at) const {
  const auto& spec = scenario_.spec;
  const auto wait = at - now_;
  // Until news that are late have come, or their host is lost by its silence.
  if (put_off_ == deadline && wait > Duration::zero() && wait <= spec.host_timeout + after_kill + spec.grace)
    return true;
  if (hurries(deadline, at)) return true;
  switch (deadline) {
    case Deadline::start:
      return begins_ && wait == gathering();
    case Deadline::job:
      return begins_ && spec.timeout && wait == *spec.timeout;
    case Deadline::grace:
      return wait == spec.grace;
    case Deadline::kill:
      return killed_ && (wait == after_kill || (killed_all_ && wait == for_last_output));
    case Deadline::stop:
      return wait == spec.grace + to_say_goodbye;
    case Deadline::sweep:
      return wait == spec.grace + after_kill;
    case Deadline::backoff:
      return wait > Duration::zero();  // see judge_costs.cc
    case Deadline::hosts:
      return wait > Duration::zero() && wait <= std::max<Duration>({longest_retry, spec.elastic.cooldown_max,
                                                                    spec.host_timeout + agent_notices_later});
    case Deadline::settle:
      return wait == spec.elastic.settle;
    case Deadline::world:
      return at == (phase_ == Phase::gathering ? std::max(now_, began_ + spec.elastic.timeout)
                                               : now_ + spec.elastic.timeout);
    case Deadline::join:
      if (world_begins_) return wait == spec.start_timeout;
      return wait > Duration::zero() && (!asks_ || wait >= 10 * spec.start_timeout);
    case Deadline::leave:
      return wait >= Duration::zero() && wait <= std::max<Duration>(spec.grace, after_kill);
    case Deadline::inspect:
      return wait == longest_inspection;
    case Deadline::notice:
      return begins_ ? !spec.elastic.enabled() && wait == hosts_named_after : wait == explained_after;
    case Deadline::cause:
      return wait == dies_later;
    case Deadline::steady:
      return wait == proves_itself;
    case Deadline::newcomers:
      return wait >= Duration::zero();
    case Deadline::finish:
      return wait >= Duration::zero() && wait <= spec.start_timeout;
  }
  return false;
}

void Waits::need(bool when, Deadline deadline, const char* why) {
  if (when && !armed_.contains(deadline))
    fail_(fmt::format("deadline {} is not armed, and {}", to_string(deadline), why));
}

void Waits::forbid(bool when, Deadline deadline, const char* why) {
  if (when && armed_.contains(deadline))
    fail_(fmt::format("deadline {} is armed, and {}", to_string(deadline), why));
}

void Waits::after_step(Phase phase, bool members_late, bool dismissed) {
  const auto& spec = scenario_.spec;
  const bool goes_on = phase == Phase::forming || phase == Phase::running || phase == Phase::cooling;
  const bool over = phase == Phase::closing || phase == Phase::done;
  need(spec.timeout && !over && !passed_.contains(Deadline::job), Deadline::job, "the job has a time limit");
  need(phase == Phase::gathering && now_ < began_ + gathering(), Deadline::start, "hosts are gathered");
  need(phase == Phase::gathering && !spec.elastic.enabled() && now_ < began_ + hosts_named_after,
       Deadline::notice, "hosts that take long are to be named");
  need(phase == Phase::running && told_at_ && now_ - *told_at_ < proves_itself, Deadline::steady,
       "the world has yet to prove itself");
  need((phase == Phase::forming || phase == Phase::running) && members_late &&
           !passed_.contains(Deadline::join),
       Deadline::join, "members have not met");
  forbid(!members_late, Deadline::join, "nobody is late");
  need(goes_on && dismissed, Deadline::leave, "somebody lives who has no place");
  need(announced_leave_ && phase == Phase::running, Deadline::leave, "members were asked to leave");
  check_drain(phase);
  check_end(phase);
  phase_ = phase;
  world_begins_ = announced_leave_ = false;
}

void Waits::check_drain(Phase phase) {
  if (phase != Phase::draining) return;
  forbid(!ends_at_, Deadline::leave, "a generation is drained");
  forbid(armed_.contains(Deadline::sweep), Deadline::grace, "all have ended");
  forbid(armed_.contains(Deadline::sweep), Deadline::kill, "all have ended");
  need(ends_at_ && !killed_all_, Deadline::grace, "no SIGKILL was sent");
  forbid(killed_all_, Deadline::grace, "SIGKILL was sent to all");
  forbid(killed_all_, Deadline::leave, "SIGKILL was sent to all");
  forbid(killed_all_, Deadline::notice, "SIGKILL was sent to all");
  need(killed_all_ && armed_.count(Deadline::sweep) == 0, Deadline::kill, "SIGKILL was sent to all");
  forbid(!killed_, Deadline::kill, "no SIGKILL was sent");
}

// An end that takes longer is explained.
void Waits::check_end(Phase phase) {
  forbid(phase == Phase::draining && ends_at_, Deadline::sweep, "no other generation follows");
  const bool drains = phase == Phase::draining && !user_asked_ && !killed_all_;
  need(ends_at_ && now_ - *ends_at_ < explained_after && (drains || phase == Phase::closing),
       Deadline::notice, "the end takes its time");
}

}  // namespace trainrun::sim
