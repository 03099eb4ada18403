#include "launcher/agent/agent.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "launcher/agent/host_facts.h"
#include "launcher/agent/process_tree.h"
#include "launcher/base/fault.h"

namespace trainrun::agent {
namespace {

// The launcher finds a silent agent first, so that it can name the host; the agent waits a little longer.
constexpr Duration longer_than_launcher = milliseconds(500);
constexpr Duration goodbye = seconds(2);
constexpr std::size_t most_names = 8;
// Beyond the grace that its workers are given, for the launcher to end an agent that said Leaving.
constexpr Duration leaving_slack = seconds(2);

std::string value_of(const wire::EnvPairs& env, std::string_view name) {
  for (const auto& [key, value] : env) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace

Agent::Agent(io::Loop& loop, Fd in, Fd out, Legacy& legacy)
    : loop_(loop),
      legacy_(legacy),
      link_(loop, std::move(in), std::move(out),
            {[this](const wire::Frame& frame) { receive(frame); },
             [this](const std::string& why) { lose_link(why); }}),
      supervisor_(loop, link_, [this](pid_t child) { inspector_.child_ended(child); }),
      inspector_(loop, link_, supervisor_),
      sweeper_(
          loop, supervisor_, [this](pid_t child) { return inspector_.is_tool(child); },
          [this](const wire::Sweep& order, const wire::Swept& answer) {
            supervisor_.forget(order.workers);
            link_.send(answer);
          }),
      door_(loop, {[this](StreamId stream) { link_.send(wire::StreamOpened{stream}); },
                   [this](StreamId stream, std::string_view bytes, bool end) {
                     link_.send(wire::StreamData{stream, std::string(bytes), end});
                   },
                   [this](uid_t user) { tell_refusal(user); }}),
      directory_(legacy),
      silence_(loop),
      ladder_(loop),
      leave_by_(loop),
      last_heard_(io::Loop::now()) {
  link_.send(wire::Hello{wire::protocol_version, static_cast<std::uint32_t>(::getpid())});
}

Agent::~Agent() = default;

void Agent::receive(const wire::Frame& frame) {
  last_heard_ = io::Loop::now();
  const auto handle = [&]<class Message>(const Message*, auto&& work) {
    const auto message = wire::from_frame<Message>(frame);
    if (!message) return lose_link("a malformed message");
    work(*message);
  };
  switch (frame.type) {
    case wire::Setup::type:
      return handle(static_cast<wire::Setup*>(nullptr), [this](const auto& it) { setup(it); });
    case wire::Start::type:
      return handle(static_cast<wire::Start*>(nullptr), [this](const auto& it) {
        if (mode_ != Mode::serving) return;
        sweeper_.before_start();
        if (it.generation.value > 1) restore_directory();  // the job may be days old by now
        supervisor_.start(it);
      });
    case wire::Signal::type:
      return handle(static_cast<wire::Signal*>(nullptr), [this](const auto& it) { supervisor_.signal(it); });
    case wire::Stdin::type:
      return handle(static_cast<wire::Stdin*>(nullptr),
                    [this](const auto& it) { supervisor_.give_stdin(it); });
    case wire::Credit::type:
      return handle(static_cast<wire::Credit*>(nullptr),
                    [this](const auto& it) { supervisor_.add_credit(it.bytes); });
    case wire::Ping::type:
      return handle(static_cast<wire::Ping*>(nullptr), [this](const auto& it) {
        link_.send(wire::Pong{it.sequence, io::Loop::now().time_since_epoch().count()});
      });
    case wire::Pause::type:
      return handle(static_cast<wire::Pause*>(nullptr), [this](const auto& it) { paused_ = it.on; });
    case wire::Sweep::type:
      return handle(static_cast<wire::Sweep*>(nullptr), [this](const auto& it) {
        if (mode_ != Mode::serving) return;
        supervisor_.reap();
        sweeper_.begin(it, grace_);
      });
    case wire::Inspect::type:
      return handle(static_cast<wire::Inspect*>(nullptr), [this](const auto& it) {
        if (mode_ == Mode::serving) inspector_.begin(it);
      });
    case wire::HoldPort::type:
      return handle(static_cast<wire::HoldPort*>(nullptr), [this](const auto& it) { hold_port(it); });
    case wire::OpenDoor::type:
      return handle(static_cast<wire::OpenDoor*>(nullptr),
                    [this](const auto& it) { link_.send(door_.open(it.first, it.last)); });
    case wire::StreamData::type:
      return handle(static_cast<wire::StreamData*>(nullptr),
                    [this](const auto& it) { door_.give(it.stream, it.bytes, it.end); });
    case wire::Stop::type:
      if (mode_ != Mode::serving) return;
      mode_ = Mode::stopping;
      return end_everything();
    default:
      return lose_link("an unknown message");
  }
}

void Agent::setup(const wire::Setup& setup) {
  if (setup.version != wire::protocol_version) return lose_link("another protocol version");
  if (std::exchange(is_set_up_, true)) return lose_link("a second Setup");
  fault::configure(setup.faults);
  grace_ = milliseconds(setup.grace_ms);
  host_timeout_ = milliseconds(setup.host_timeout_ms);
  legacy_.set_host_timeout(host_timeout_);
  elastic_ = setup.elastic;
  wire::Prepared prepared;
  prepared.problems = check_setup(setup);
  if (setup.own_directory) {
    const auto places = places_for_job_directory(value_of(setup.env, "TMPDIR"), own_tmpdir());
    // Only the hosts of an elastic job are dialled a second time.
    if (elastic_)
      for (const auto& place : places)
        tell_cleared(clear_after_predecessors(place, setup.job_id, setup.host));
    const int error = directory_.make(places, setup.job_id, setup.key);
    if (error != 0)
      prepared.problems.push_back({wire::Problem::Kind::job_directory, directory_.path(), error});
    if (error == 0 && elastic_) life_ = claim_directory(directory_.path(), setup.host);
    prepared.job_directory = directory_.path();
  }
  prepared.facts = read_host_facts({setup.want_topology, setup.want_addresses});
  link_.send(prepared);
  supervisor_.setup(setup);
  inspector_.setup(value_of(setup.env, "PATH"));
  watch_silence();
}

void Agent::restore_directory() {
  if (const int error = directory_.restore(); error != 0)
    link_.send(wire::Note{"the job's directory " + directory_.path() + " is gone: " + errno_text(error)});
}

void Agent::tell_cleared(const Cleared& cleared) {
  if (cleared.directories == 0) return;
  link_.send(wire::Note{"what an earlier agent of this job left here is cleared up: its directory, " +
                        std::to_string(cleared.processes) + " processes"});
}

void Agent::watch_silence() {
  legacy_.show_life();
  const auto due = io::Loop::now() + host_timeout_ / 4;
  silence_.arm(due, [this, due] {
    // A late timer says that it was us who stood still: what the launcher said meanwhile waits to be read.
    const bool stood_still = io::Loop::now() - due > host_timeout_ / 4;
    if (paused_ || stood_still) last_heard_ = io::Loop::now();
    if (io::Loop::now() - last_heard_ > host_timeout_ + longer_than_launcher)
      return lose_link("the launcher fell silent");
    watch_silence();
  });
}

void Agent::hold_port(const wire::HoldPort& order) {
  if (const auto error = fault::point("agent.port")) return link_.send(wire::PortHeld{0, *error});
  auto held = agent::hold_port(order.first, order.last, held_port_.answer.port);
  link_.send(held.answer);
  // The last generation's port is let go only now: until here it kept us from getting the same one again.
  if (held.answer.error == 0) held_port_ = std::move(held);
}

// Once: who wants to fill the launcher's screen could connect for ever.
void Agent::tell_refusal(uid_t user) {
  if (std::exchange(told_refusal_, true)) return;
  link_.send(
      wire::Note{"a process of the user " + std::to_string(user) +
                 " connected to this job's rendezvous and was turned away; no more such will be told"});
}

void Agent::on_child() {
  supervisor_.reap();
  sweeper_.step();
  ending_step();
}

void Agent::on_signal(int number) {
  const bool must_leave = number != SIGUSR1;
  if (mode_ == Mode::serving && elastic_ && !(must_leave && must_leave_)) {
    if (must_leave) {
      must_leave_ = true;
      leave_by_.arm(io::Loop::now() + grace_ + leaving_slack, [this, number] { end_by_signal(number); });
    } else if (told_leaving_) {
      return;
    }
    told_leaving_ = true;
    return link_.send(wire::Leaving{"the agent got " + signal_name(number)});
  }
  if (must_leave) return end_by_signal(number);
  link_.send(wire::Note{"the agent got " + signal_name(number) + ", which means nothing to this job"});
}

void Agent::end_by_signal(int number) {
  link_.send(wire::Note{"the agent got " + signal_name(number) + " and ends its ranks"});
  link_.flush_and_close(milliseconds(200));
  lose_link("ended by a signal");
}

void Agent::lose_link(const std::string&) {
  if (mode_ == Mode::lost) return;
  const bool ladder_runs = mode_ == Mode::stopping;
  mode_ = Mode::lost;
  exit_code_ = 1;
  if (!ladder_runs) return end_everything();
  ending_step();
}

void Agent::end_everything() {
  silence_.disarm();
  leave_by_.disarm();
  sweeper_.drop();
  inspector_.drop();
  supervisor_.reap();
  if (no_children_left()) return leave();
  leftover_names_ = names_of(descendants(::getpid()), most_names);
  leftovers_ = signal_descendants(SIGTERM);
  signal_descendants(SIGCONT);
  ladder_.arm(io::Loop::now() + grace_, [this] {
    killed_ = true;
    signal_descendants(SIGKILL);
    // What even KILL does not end hangs in the kernel: the watcher tries again, but nobody waits for it here.
    ladder_.arm(io::Loop::now() + goodbye, [this] { leave(); });
    ending_step();
  });
  ending_step();
}

void Agent::ending_step() {
  if (mode_ == Mode::serving) return;
  if (killed_) signal_descendants(SIGKILL);  // one may have forked between the look and the kill
  if (no_children_left()) leave();
}

void Agent::leave() {
  if (std::exchange(left_, true)) return;
  ladder_.disarm();
  remove_tree(legacy_.job_directory());
  if (mode_ == Mode::stopping) {
    link_.send(wire::Stopped{static_cast<std::uint32_t>(leftovers_), killed_, leftover_names_});
    link_.flush_and_close(goodbye);
  }
  loop_.stop();
}

}  // namespace trainrun::agent
