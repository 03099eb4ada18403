#include "launcher/agent/agent.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "launcher/agent/host_facts.h"
#include "launcher/base/fault.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

// The launcher finds a silent agent first, so that it can name the host; the agent waits a little longer.
constexpr Duration longer_than_launcher = milliseconds(500);
// Signals of one number that come within it are one.
constexpr Duration one_press = milliseconds(500);
// Beyond the grace that its workers are given, for the launcher to end an agent that said Leaving.
constexpr Duration leaving_slack = seconds(2);
// Between two signs of life, also where the time-out is long.
constexpr Duration longest_beat = milliseconds(2500);

}  // namespace

Agent::Agent(io::Loop& loop, Fd in, Fd out, Handover& handover)
    : loop_(loop),
      handover_(handover),
      watcher_(::getppid()),
      link_(loop, std::move(in), std::move(out),
            {[this](const wire::Frame& frame) { receive(frame); },
             [this](const std::string&) { lose_link(); }, [this] { last_heard_ = io::Loop::now(); }}),
      job_(loop, link_, handover),
      pulse_(loop),
      silence_(loop),
      leave_by_(loop),
      last_heard_(io::Loop::now()) {
  link_.send(wire::Hello{wire::protocol_version, static_cast<std::uint32_t>(::getpid())});
  beat();
}

Agent::~Agent() = default;

void Agent::receive(const wire::Frame& frame) {
  const auto handle = [&]<class Message>(const Message*, auto&& work) {
    const auto message = wire::from_frame<Message>(frame);
    if (!message) return give_up("got a malformed message");
    work(*message);
  };
  switch (frame.type) {
    case wire::Greet::type:
      return handle(static_cast<wire::Greet*>(nullptr), [this](const auto& it) { greet(it); });
    case wire::OpenJob::type:
      return handle(static_cast<wire::OpenJob*>(nullptr), [this](const auto& it) { open(it); });
    case wire::Ping::type:
      return handle(static_cast<wire::Ping*>(nullptr), [this](const auto& it) {
        link_.send(wire::Pong{it.sequence, io::Loop::now().time_since_epoch().count()});
      });
    case wire::Pause::type:
      return handle(static_cast<wire::Pause*>(nullptr), [this](const auto& it) {
        paused_ = it.on;
        job_.hold(it.on);
      });
    case wire::Stop::type:
      if (mode_ != Mode::serving) return;
      mode_ = Mode::stopping;
      return end_job();
    default:
      return pass_on(frame);
  }
}

void Agent::pass_on(const wire::Frame& frame) {
  switch (job_.receive(frame)) {
    case Job::Heard::taken:
      return;
    case Job::Heard::malformed:
      return give_up("got a malformed message");
    case Job::Heard::unknown:
      return give_up("got a message that it does not know");
  }
}

void Agent::greet(const wire::Greet& greeting) {
  if (greeting.version != wire::protocol_version) return give_up("speaks another protocol");
  if (std::exchange(is_greeted_, true)) return give_up("was greeted twice");
  fault::configure(greeting.faults);
  host_timeout_ = milliseconds(greeting.host_timeout_ms);
  // Our watcher sleeps by the time-out that it began with, until something wakes it.
  if (handover_.host_timeout() != host_timeout_) {
    handover_.set_host_timeout(host_timeout_);
    ::kill(::getppid(), SIGCHLD);
  }
  link_.send(wire::Greeted{read_host_facts({greeting.want_topology, greeting.want_addresses})});
  beat();
  watch_silence();
}

void Agent::open(const wire::OpenJob& order) {
  if (!is_greeted_) return give_up("was given a job before it was greeted");
  if (job_.is_open()) return give_up("was given a second job");
  job_.open(order);
}

// From the first turn to the last, whatever else happens: our watcher must not take a launcher that is slow
// to begin, or ranks that use all of a long grace, for a hang of ours.
void Agent::beat() {
  handover_.show_life();
  job_.look_at_memory();
  pulse_.arm(io::Loop::now() + std::min(handover_.host_timeout() / 4, longest_beat), [this] { beat(); });
}

void Agent::watch_silence() {
  const auto due = io::Loop::now() + host_timeout_ / 4;
  silence_.arm(due, [this, due] {
    // A late timer says that it was us who stood still: what the launcher said meanwhile waits to be read.
    const bool stood_still = io::Loop::now() - due > host_timeout_ / 4;
    if (paused_ || stood_still) last_heard_ = io::Loop::now();
    if (io::Loop::now() - last_heard_ > host_timeout_ + longer_than_launcher) {
      // It may only have been stopped: then it must not take what we do to the ranks for their own end.
      link_.flush_and_close(Duration::zero());
      return lose_link();
    }
    watch_silence();
  });
}

void Agent::on_child() { job_.on_child(); }

void Agent::on_signal(int number) {
  if (number == SIGUSR2 || (number == SIGUSR1 && !job_.is_elastic()))
    return link_.send(
        wire::Note{"the agent got " + signal_name(number) + ", which means nothing to this job"});
  if (number == SIGUSR1) {
    if (mode_ == Mode::serving && !told_leaving_) tell_leaving(number);
    return;
  }
  // Nobody sent that: it tells that the watcher has died.
  if (number == SIGTERM && ::getppid() != watcher_) return give_up("lost its watcher, which was killed,");
  if (mode_ == Mode::lost || !job_.is_open()) return end_by_signal(number);
  const auto now = io::Loop::now();
  // Who ends all processes of a job also reaches the watcher, which hands it on.
  if (number == std::exchange(leave_signal_, number) && now - leave_signal_at_ < one_press) return;
  if (leave_signal_at_ != Instant{}) return end_by_signal(number);
  leave_signal_at_ = now;
  if (mode_ == Mode::stopping) return;  // the launcher has ended the job, and this hears of it as well
  leave_by_.arm(now + job_.grace() + leaving_slack, [this, number] { end_by_signal(number); });
  tell_leaving(number);
}

void Agent::tell_leaving(int number) {
  told_leaving_ = true;
  link_.send(wire::Leaving{"the agent got " + signal_name(number)});
}

}  // namespace trainrun::agent
