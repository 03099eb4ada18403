#include "launcher/agent/agent.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "launcher/agent/horovod_program.h"
#include "launcher/agent/host_facts.h"
#include "launcher/agent/process_stat.h"
#include "launcher/agent/process_tree.h"
#include "launcher/agent/socket_owner.h"
#include "launcher/agent/spared.h"
#include "launcher/base/fault.h"
#include "launcher/base/strings.h"
#include "launcher/wire/env_pairs.h"

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
      link_(loop, std::move(in), std::move(out),
            {[this](const wire::Frame& frame) { receive(frame); },
             [this](const std::string&) { lose_link(); }}),
      pmi_(loop, link_),
      pmix_(loop, link_,
            {[this](const wire::Start& order) { preloader_.start(order); },
             [this](WorkerId worker, wire::Output stream, const std::string& text) {
               supervisor_.print(worker, stream, text);
             }}),
      supervisor_(
          loop, link_, pmi_, pmix_,
          [this](pid_t child) {
            return inspector_.take(child) || pmix_.take(child) || preloader_.take(child);
          },
          [this](pid_t pid) { return pmix_.is_helper(pid) || preloader_.is_zygote(pid); }),
      preloader_(loop, link_, supervisor_),
      mpi_watch_(loop, link_, [this] { return silent_ranks(); }),
      store_watch_(loop, link_, [this] { return supervisor_.live_leaders(); }),
      inspector_(loop, link_, supervisor_),
      sweeper_(
          loop, supervisor_,
          [this](pid_t child) {
            return inspector_.is_tool(child) || pmix_.is_helper(child) || preloader_.is_of_zygote(child);
          },
          [this](const wire::Sweep& order, const wire::Swept& answer) {
            if (answer.stuck > 0) tell_beyond_reach(order.workers);
            supervisor_.forget(order.workers);
            link_.send(answer);
          }),
      door_(loop, last_stream_, at_door(wire::DoorKind::rendezvous)),
      torch_door_(loop, last_stream_, at_door(wire::DoorKind::torch_store)),
      horovod_door_(loop, last_stream_, at_door(wire::DoorKind::horovod)),
      worker_ports_(loop, {relaying(),
                           [this](StreamId stream, int error) {
                             link_.send(wire::StreamRefused{stream, error});
                           }}),
      starts_(loop, {[this](const wire::Start& order) { start(order); },
                     [this](WorkerId worker) {
                       link_.send(wire::NotStarted{worker, SpawnStage::none, ECANCELED,
                                                   io::Loop::now().time_since_epoch().count()});
                     }}),
      directory_(handover),
      pulse_(loop),
      silence_(loop),
      ladder_(loop),
      leave_by_(loop),
      last_heard_(io::Loop::now()) {
  link_.send(wire::Hello{wire::protocol_version, static_cast<std::uint32_t>(::getpid())});
  beat();
}

Agent::~Agent() = default;

Door& Agent::door(wire::DoorKind kind) {
  return kind == wire::DoorKind::torch_store ? torch_door_
         : kind == wire::DoorKind::horovod   ? horovod_door_
                                             : door_;
}

StreamHandlers Agent::relaying() {
  return {[this](StreamId stream, std::string_view bytes, bool end) {
            link_.send(wire::StreamData{stream, std::string(bytes), end});
          },
          [this](StreamId stream, std::uint64_t bytes) {
            link_.send(wire::StreamTaken{stream, bytes});
          }};
}

Door::Handlers Agent::at_door(wire::DoorKind kind) {
  auto [data, taken] = relaying();
  return {[this, kind](StreamId stream, const PeerOwner& owner) {
            // Members of our rendezvous and Horovod's ranks say themselves who they are.
            const auto worker = kind == wire::DoorKind::torch_store
                                    ? worker_with_socket(owner.inode, supervisor_.live_leaders())
                                    : std::nullopt;
            link_.send(wire::StreamOpened{stream, kind, worker.value_or(WorkerId{})});
          },
          std::move(data), std::move(taken), [this](uid_t user) { tell_refusal(user); }};
}

void Agent::receive(const wire::Frame& frame) {
  last_heard_ = io::Loop::now();
  const auto handle = [&]<class Message>(const Message*, auto&& work) {
    const auto message = wire::from_frame<Message>(frame);
    if (!message) return give_up("got a malformed message");
    work(*message);
  };
  switch (frame.type) {
    case wire::Setup::type:
      return handle(static_cast<wire::Setup*>(nullptr), [this](const auto& it) { setup(it); });
    case wire::Start::type:
      return handle(static_cast<wire::Start*>(nullptr), [this](const auto& it) {
        if (mode_ == Mode::serving) starts_.add(it);
      });
    case wire::World::type:
      return handle(static_cast<wire::World*>(nullptr), [this](const auto& it) {
        if (mode_ != Mode::serving) return;
        if (it.generation.value > 1) restore_directory();
        pmix_.world(it);
      });
    case wire::Signal::type:
      return handle(static_cast<wire::Signal*>(nullptr), [this](const auto& it) {
        if (it.ending) starts_.drop(it.workers);
        pmix_.signal(it);
        preloader_.signal(it);
        supervisor_.signal(it);
        if (it.number == SIGKILL) tell_beyond_reach(it.workers);
      });
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
      return handle(static_cast<wire::Pause*>(nullptr), [this](const auto& it) {
        paused_ = it.on;
        starts_.hold(it.on);
      });
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
      return handle(static_cast<wire::OpenDoor*>(nullptr), [this](const auto& it) {
        auto opened = door(it.kind).open(it.first, it.last);
        opened.kind = it.kind;
        link_.send(opened);
      });
    case wire::OpenStream::type:
      return handle(static_cast<wire::OpenStream*>(nullptr), [this](const auto& it) {
        if (mode_ == Mode::serving) worker_ports_.open(it);
      });
    case wire::StreamData::type:
      return handle(static_cast<wire::StreamData*>(nullptr), [this](const auto& it) {
        if (wire::is_of_launcher(it.stream)) return worker_ports_.give(it.stream, it.bytes, it.end);
        for (auto* door : {&door_, &torch_door_, &horovod_door_}) door->give(it.stream, it.bytes, it.end);
      });
    case wire::StreamTaken::type:
      return handle(static_cast<wire::StreamTaken*>(nullptr), [this](const auto& it) {
        if (wire::is_of_launcher(it.stream)) return worker_ports_.taken(it.stream, it.bytes);
        for (auto* door : {&door_, &torch_door_, &horovod_door_}) door->taken(it.stream, it.bytes);
      });
    case wire::Gathered::type:
      return handle(static_cast<wire::Gathered*>(nullptr), [this](const auto& it) {
        it.dialect == wire::Dialect::pmix ? pmix_.gathered(it) : pmi_.gathered(it);
      });
    case wire::GatherFailed::type:
      return handle(static_cast<wire::GatherFailed*>(nullptr), [this](const auto& it) {
        pmi_.failed(it);
        pmix_.failed(it);
      });
    case wire::RankDied::type:
      return handle(static_cast<wire::RankDied*>(nullptr), [this](const auto& it) { pmix_.died(it); });
    case wire::Ask::type:
      return handle(static_cast<wire::Ask*>(nullptr), [this](const auto& it) {
        it.dialect == wire::Dialect::pmix ? pmix_.asked(it) : pmi_.asked(it);
      });
    case wire::Answer::type:
      return handle(static_cast<wire::Answer*>(nullptr), [this](const auto& it) { pmix_.answered(it); });
    case wire::Stop::type:
      if (mode_ != Mode::serving) return;
      mode_ = Mode::stopping;
      return end_everything();
    default:
      return give_up("got a message that it does not know");
  }
}

void Agent::setup(const wire::Setup& setup) {
  if (setup.version != wire::protocol_version) return give_up("speaks another protocol");
  if (std::exchange(is_set_up_, true)) return give_up("was set up twice");
  fault::configure(setup.faults);
  grace_ = milliseconds(setup.grace_ms);
  host_timeout_ = milliseconds(setup.host_timeout_ms);
  handover_.set_host_timeout(host_timeout_);
  // Our watcher sleeps by the time-out that it began with, until something wakes it.
  ::kill(::getppid(), SIGCHLD);
  elastic_ = setup.elastic;
  wire::Prepared prepared;
  prepared.problems = check_setup(setup);
  if (setup.own_directory) {
    const auto places = places_for_job_directory(wire::value_of(setup.env, "TMPDIR"), own_tmpdir());
    for (const auto& place : places) {
      // Only the hosts of an elastic job are dialled a second time.
      if (elastic_) tell_cleared(clear_after_predecessors(place, setup.job_id, setup.host));
      if (const auto ended = clear_after_dead_jobs(place, setup.job_id).processes; ended > 0)
        link_.send(wire::Note{"of an earlier job, whose agent was killed, " +
                              counted(static_cast<std::int64_t>(ended), "process") +
                              (ended == 1 ? " was" : " were") + " left here and ended now"});
    }
    const int error = directory_.make(places, setup.job_id, setup.key);
    if (error != 0)
      prepared.problems.push_back({wire::Problem::Kind::job_directory, directory_.path(), error});
    if (error == 0) life_ = claim_directory(directory_.path(), setup.host);
    prepared.job_directory = directory_.path();
  }
  prepared.facts = read_host_facts({setup.want_topology, setup.want_addresses});
  pmix_.setup(setup, prepared);
  if (setup.pmix == wire::OfferPmix::by_program || setup.pmix == wire::OfferPmix::interpreters_too) {
    prepared.facts.horovod =
        std::any_of(setup.commands.begin(), setup.commands.end(), [&](const wire::Command& command) {
          return uses_horovod(command.argv, command.directory, setup.env);
        });
  }
  link_.send(prepared);
  supervisor_.setup(setup);
  pmi_.setup(setup.job_id);
  if (pmix_.wanted() && setup.own_directory && prepared.problems.empty()) directory_.add_memory();
  pmix_.begin(directory_.path(), directory_.memory());
  if (prepared.problems.empty()) preloader_.begin(setup.preload, directory_.path());
  inspector_.setup(wire::value_of(setup.env, "PATH"));
  beat();
  watch_silence();
}

// From the first turn to the last, whatever else happens: our watcher must not take a launcher that is slow
// to begin, or ranks that use all of a long grace, for a hang of ours.
void Agent::beat() {
  handover_.show_life();
  supervisor_.look_at_memory();
  pulse_.arm(io::Loop::now() + std::min(handover_.host_timeout() / 4, longest_beat), [this] { beat(); });
}

std::vector<MpiWatch::Silent> Agent::silent_ranks() const {
  std::vector<MpiWatch::Silent> silent;
  for (const auto& leader : supervisor_.live_leaders())
    if (!pmi_.has_spoken(leader.worker) && !pmix_.has_spoken(leader.worker))
      silent.push_back({leader.worker, leader.pid});
  return silent;
}

void Agent::start(const wire::Start& order) {
  sweeper_.before_start();
  if (order.generation.value > 1) restore_directory();  // the job may be days old by now
  mpi_watch_.ordered(order);
  store_watch_.ordered(order);
  pmix_.start(order);
}

void Agent::restore_directory() {
  if (const int error = directory_.restore(); error != 0)
    link_.send(wire::Note{"the job's directory " + directory_.path() + " is gone: " + errno_text(error)});
}

void Agent::tell_cleared(const Cleared& cleared) {
  if (cleared.directories == 0) return;
  link_.send(wire::Note{"what an earlier agent of this job left here has been cleaned up: its directory" +
                        (cleared.processes == 0
                             ? ""
                             : " and " + counted(static_cast<std::int64_t>(cleared.processes), "process"))});
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

void Agent::hold_port(const wire::HoldPort& order) {
  if (const auto error = fault::point("agent.port")) return link_.send(wire::PortHeld{0, *error});
  if (order.only_look) return link_.send(look_at_port(order.first));
  auto held = agent::hold_port(order.first, order.last, held_port_);
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
  if (number == SIGUSR2 || (number == SIGUSR1 && !elastic_))
    return link_.send(
        wire::Note{"the agent got " + signal_name(number) + ", which means nothing to this job"});
  if (number == SIGUSR1) {
    if (mode_ == Mode::serving && !told_leaving_) tell_leaving(number);
    return;
  }
  if (mode_ == Mode::lost || !is_set_up_) return end_by_signal(number);
  const auto now = io::Loop::now();
  // Who ends all processes of a job also reaches the watcher, which hands it on.
  if (number == std::exchange(leave_signal_, number) && now - leave_signal_at_ < one_press) return;
  if (leave_signal_at_ != Instant{}) return end_by_signal(number);
  leave_signal_at_ = now;
  if (mode_ == Mode::stopping) return;  // the launcher has ended the job, and this hears of it as well
  leave_by_.arm(now + grace_ + leaving_slack, [this, number] { end_by_signal(number); });
  tell_leaving(number);
}

void Agent::tell_leaving(int number) {
  told_leaving_ = true;
  link_.send(wire::Leaving{"the agent got " + signal_name(number)});
}

}  // namespace trainrun::agent
