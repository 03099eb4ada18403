#include "launcher/agent/job.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <type_traits>
#include <utility>

#include "launcher/agent/break_connections.h"
#include "launcher/agent/horovod_program.h"
#include "launcher/agent/host_facts.h"
#include "launcher/agent/process_stat.h"
#include "launcher/agent/socket_owner.h"
#include "launcher/base/fault.h"
#include "launcher/base/strings.h"
#include "launcher/wire/env_pairs.h"

namespace trainrun::agent {
namespace {

constexpr Duration second_look_after = seconds(1);

}  // namespace

Job::Job(io::Loop& loop, io::FrameStream& link, Handover& handover)
    : loop_(loop),
      link_(link),
      handover_(handover),
      pmi_(loop, link),
      pmix_(loop, link,
            {[this](const wire::Start& order) { preloader_.start(order); },
             [this](WorkerId worker, wire::Output stream, const std::string& text) {
               supervisor_.print(worker, stream, text);
             }}),
      supervisor_(
          loop, link, pmi_, pmix_,
          [this](pid_t child) {
            return inspector_.take(child) || pmix_.take(child) || preloader_.take(child);
          },
          [this](pid_t pid) { return pmix_.is_helper(pid) || preloader_.is_zygote(pid); }),
      preloader_(loop, link, supervisor_),
      mpi_watch_(loop, link, [this] { return silent_ranks(); }),
      store_watch_(loop, link, [this] { return supervisor_.live_leaders(); }),
      inspector_(loop, link, supervisor_),
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
      second_look_(loop),
      ladder_(loop) {}

Job::~Job() = default;

Door& Job::door(wire::DoorKind kind) {
  switch (kind) {
    case wire::DoorKind::torch_store:
      return torch_door_;
    case wire::DoorKind::horovod:
      return horovod_door_;
    case wire::DoorKind::rendezvous:
      break;
  }
  return door_;
}

StreamHandlers Job::relaying() {
  return {[this](StreamId stream, std::string_view bytes, bool end) {
            link_.send(wire::StreamData{stream, std::string(bytes), end});
          },
          [this](StreamId stream, std::uint64_t bytes) {
            link_.send(wire::StreamTaken{stream, bytes});
          }};
}

Door::Handlers Job::at_door(wire::DoorKind kind) {
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

Job::Heard Job::receive(const wire::Frame& frame) {
  const auto handle = [&]<class Message>(const Message*, auto&& work) {
    auto message = wire::from_frame<Message>(frame);
    if (!message) return Heard::malformed;
    work(*message);
    return Heard::taken;
  };
  switch (frame.type) {
    case wire::Start::type:
      return handle(static_cast<wire::Start*>(nullptr), [this](auto& it) {
        if (!is_ending()) starts_.add(std::move(it));
      });
    case wire::World::type:
      return handle(static_cast<wire::World*>(nullptr), [this](const auto& it) {
        if (is_ending()) return;
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
    case wire::Sweep::type:
      return handle(static_cast<wire::Sweep*>(nullptr), [this](const auto& it) {
        if (is_ending()) return;
        supervisor_.reap();
        sweeper_.begin(it, grace_);
      });
    case wire::Inspect::type:
      return handle(static_cast<wire::Inspect*>(nullptr), [this](const auto& it) {
        if (!is_ending()) inspector_.begin(it);
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
        if (!is_ending()) worker_ports_.open(it);
      });
    case wire::BreakConnections::type:
      return handle(static_cast<wire::BreakConnections*>(nullptr),
                    [this](const auto& it) { break_connections(it.ends, supervisor_.processes_of({})); });
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
    default:
      return Heard::unknown;
  }
}

void Job::open(const wire::OpenJob& order) {
  is_open_ = true;
  grace_ = milliseconds(order.grace_ms);
  elastic_ = order.elastic;
  wire::Prepared answer;
  answer.problems = problems_of(order);
  if (order.own_directory) make_directory(order, answer);
  pmix_.look_at(order, answer);
  if (order.pmix == wire::OfferPmix::by_program || order.pmix == wire::OfferPmix::interpreters_too) {
    answer.programs.horovod =
        std::any_of(order.commands.begin(), order.commands.end(), [&](const wire::Command& command) {
          return uses_horovod(command.argv, command.directory, order.env);
        });
  }
  link_.send(answer);
  supervisor_.open(order);
  pmi_.setup(order.job_id);
  if (pmix_.wanted() && order.own_directory && answer.problems.empty()) directory_.add_memory();
  pmix_.begin(directory_.path(), directory_.memory());
  if (answer.problems.empty()) preloader_.begin(order.preload, directory_.path());
  inspector_.setup(wire::value_of(order.env, "PATH"));
}

void Job::make_directory(const wire::OpenJob& order, wire::Prepared& answer) {
  const auto places = places_for_job_directory(wire::value_of(order.env, "TMPDIR"), own_tmpdir());
  // Only the hosts of an elastic job are dialled a second time.
  if (elastic_)
    for (const auto& place : places) tell_cleared(clear_after_predecessors(place, order.job_id, order.host));
  const int error = directory_.make(places, order.job_id, order.key);
  if (error != 0) answer.problems.push_back({wire::Problem::Kind::job_directory, directory_.path(), error});
  answer.job_directory = directory_.path();
  // While the launcher works on our answer, and before a worker is started; where it is long and unlikely to
  // find something, not before this job is known to last.
  loop_.post([this, places, id = order.job_id, host = order.host, made = error == 0] {
    if (made) life_ = claim_directory(directory_.path(), host);
    const auto likely = made ? places_of_other_jobs(places, directory_.path()) : places;
    clear_after_others(likely, id);
    if (likely.size() == places.size()) return;
    second_look_.arm(io::Loop::now() + second_look_after,
                     [this, last = places.back(), id] { clear_after_others({last}, id); });
  });
}

void Job::on_child() {
  store_watch_.ending();
  supervisor_.reap();
  sweeper_.step();
  ending_step();
}

std::vector<MpiWatch::Silent> Job::silent_ranks() const {
  std::vector<MpiWatch::Silent> silent;
  for (const auto& leader : supervisor_.live_leaders())
    if (!pmi_.has_spoken(leader.worker) && !pmix_.has_spoken(leader.worker))
      silent.push_back({leader.worker, leader.pid});
  return silent;
}

void Job::start(const wire::Start& order) {
  sweeper_.before_start();
  if (order.generation.value > 1) restore_directory();  // the job may be days old by now
  mpi_watch_.ordered(order);
  store_watch_.ordered(order);
  pmix_.start(order);
}

void Job::restore_directory() {
  if (const int error = directory_.restore(); error != 0)
    link_.send(wire::Note{"the job's directory " + directory_.path() + " is gone: " + errno_text(error)});
}

void Job::clear_after_others(const std::vector<std::string>& places, const std::string& own_id) {
  std::size_t ended = 0;
  for (const auto& place : places) ended += clear_after_dead_jobs(place, own_id).processes;
  if (ended > 0)
    link_.send(wire::Note{"ended " + counted(static_cast<std::int64_t>(ended), "process") +
                          " left here by an earlier job whose agent was killed"});
}

void Job::tell_cleared(const Cleared& cleared) {
  if (cleared.directories == 0) return;
  link_.send(wire::Note{"cleaned up what an earlier agent of this job left here: its directory" +
                        (cleared.processes == 0
                             ? ""
                             : " and " + counted(static_cast<std::int64_t>(cleared.processes), "process"))});
}

void Job::hold_port(const wire::HoldPort& order) {
  if (const auto error = fault::point("agent.port")) return link_.send(wire::PortHeld{0, *error});
  if (order.only_look) return link_.send(look_at_port(order.first));
  auto held = agent::hold_port(order.first, order.last, held_port_);
  link_.send(held.answer);
  // The last generation's port is let go only now: until here it kept us from getting the same one again.
  if (held.answer.error == 0) held_port_ = std::move(held);
}

// Once: who wants to fill the launcher's screen could connect for ever.
void Job::tell_refusal(uid_t user) {
  if (std::exchange(told_refusal_, true)) return;
  link_.send(
      wire::Note{"a process of the user " + std::to_string(user) +
                 " connected to this job's rendezvous and was turned away; no more such will be told"});
}

}  // namespace trainrun::agent
