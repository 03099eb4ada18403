// What the brain orders, performed.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <unordered_set>
#include <utility>

#include "launcher/base/check.h"
#include "launcher/base/open_files.h"
#include "launcher/base/strings.h"
#include "launcher/controller.h"
#include "launcher/core/binding.h"
#include "launcher/core/process_mapping.h"
#include "launcher/core/scheduling.h"
#include "launcher/core/worker_env.h"
#include "launcher/io/clock.h"
#include "launcher/output/words.h"

namespace trainrun {

// ---- what the brain orders

namespace {

Error master_port_taken(const std::string& host, const wire::PortHeld& held) {
  const auto by = held.holder.empty() ? std::string() : fmt::format(" (by {})", held.holder);
  return {Code::try_again,
          fmt::format("{}: rank 0 could not listen on --master-port {}: {}{}", host, held.port,
                      errno_text(held.error), by),
          held.error == EADDRINUSE
              ? "end what uses it, name another port, or leave --master-port out: a free "
                "one is found at each start"
              : "name another port, or leave --master-port out: a free one is found at "
                "each start"};
}

bool meets_without_torch(const wire::HostFacts& facts) {
  return facts.horovod || std::any_of(facts.mpi.begin(), facts.mpi.end(), [](const wire::MpiFact& fact) {
           return fact.family != wire::MpiFamily::none;
         });
}

}  // namespace

void Controller::perform(const core::AddHost& order) {
  TRAINRUN_CHECK(order.host.value == job_.hosts.hosts.size());
  job_.hosts.hosts.push_back(order.as);
}

void Controller::perform(const core::DialHost& order) {
  ports_asked_.erase(order.host);  // the agent that was asked is gone, and so is what it held
  if (held_port_ && held_port_->for_whom.host == order.host) held_port_.reset();
  fleet_.dial(order.host);
}

void Controller::perform(const core::ReservePort& order) {
  port_wanted_ = order;
  // The user's port is used as it is, and not held. Once a world has begun, its survivors may have it. Our
  // own store has its ports already.
  if ((job_.master_port != 0 && world_.generation.value != 0) || job_.torch_store == TorchStore::trainrun) {
    return loop_.post([this, generation = order.generation] {
      if (!port_wanted_ || port_wanted_->generation != generation) return;
      port_wanted_.reset();
      master_port_ = job_.master_port;
      event(core::PortReserved{generation});
    });
  }
  if (held_port_) loop_.post([this] { use_port(); });
  const auto& asked = ports_asked_[order.host];
  const bool known = std::find(asked.begin(), asked.end(), order.generation) != asked.end() ||
                     (held_port_ && held_port_->for_whom == order);
  if (!known) ask_port(order.host, order.generation);
}

void Controller::ask_port(HostIndex host, Generation generation) {
  ports_asked_[host].push_back(generation);
  fleet_.at(host).send(job_.master_port == 0 ? wire::HoldPort{job_.ports.first, job_.ports.last}
                                             : wire::HoldPort{job_.master_port, job_.master_port, true});
}

void Controller::port_held(HostIndex host, const wire::PortHeld& held) {
  auto& asked = ports_asked_[host];
  if (asked.empty()) return;
  held_port_ = HeldPort{{asked.front(), host}, held};
  asked.pop_front();
  use_port();
}

void Controller::use_port() {
  if (!port_wanted_ || !held_port_ || held_port_->for_whom != *port_wanted_) return;
  const auto wanted = *std::exchange(port_wanted_, std::nullopt);
  const auto held = std::exchange(held_port_, std::nullopt)->answer;
  if (held.error != 0 && job_.master_port != 0)
    return event(core::PortRefused{wanted.generation,
                                   master_port_taken(job_.hosts.hosts[wanted.host.value].name, held)});
  if (held.error != 0) {
    return event(
        core::PortRefused{wanted.generation,
                          Error{Code::try_again,
                                fmt::format("{}: cannot reserve a port for MASTER_PORT: {}",
                                            job_.hosts.hosts[wanted.host.value].name, errno_text(held.error)),
                                held.error == EMFILE || held.error == ENFILE
                                    ? open_files_hint(held.error)
                                    : "widen --port-range, or name a port with --master-port"}});
  }
  master_port_ = held.port;
  event(core::PortReserved{wanted.generation});
}

void Controller::perform(const core::BeginWorld& order) {
  world_ = order.placement;
  restarts_ = order.restarts;
  facts_ = fleet_.facts();
  addresses_ = core::addresses_of(facts_, job_);
  const auto address = [this](HostIndex host) {
    const auto it = addresses_.find(host);
    return it == addresses_.end() ? std::string{} : it->second;
  };
  master_address_ = address(world_.seats.front().host);
  std::vector<RendezvousHub::Member> members;
  ranks_on_.clear();
  for (const auto& seat : world_.seats) {
    ranks_on_[seat.host].push_back(seat.rank);
    members.push_back(
        {seat, job_.hosts.hosts[seat.host.value].name, address(seat.host), order.workers[seat.rank.value]});
  }
  const std::unordered_set<WorkerId> present(order.workers.begin(), order.workers.end());
  const auto is_gone = [&](const auto& it) { return !present.contains(it.first); };
  std::erase_if(last_operation_, is_gone);
  std::erase_if(last_output_, is_gone);
  std::erase_if(last_stderr_, is_gone);
  std::erase_if(recorded_, is_gone);
  rendezvous_.begin(world_.generation, members);
  all_new_ = std::all_of(order.workers.begin(), order.workers.end(),
                         [this](WorkerId worker) { return worker > newest_; });
  store_.begin(order.placement.generation, all_new_ ? order.workers : std::vector<WorkerId>{});
  for (const auto& [host, facts] : facts_) {
    if (meets_without_torch(*facts)) store_.meet_elsewhere(order.placement.generation);
  }
  newest_ = std::max(newest_, *std::max_element(order.workers.begin(), order.workers.end()));
  std::vector<HostIndex> hosts;
  for (const auto& seat : world_.seats) hosts.push_back(seat.host);
  exchange_.begin(world_.generation, std::move(hosts));
  mapping_ = core::process_mapping(world_);
  pmix_everywhere_ = std::all_of(world_.seats.begin(), world_.seats.end(), [this](const core::Seat& seat) {
    const auto facts = facts_.find(seat.host);
    return facts != facts_.end() && !facts->second->pmix_library.empty();
  });
  console_.begin_world(world_, order.workers);
  sign_of_life();
  if (job_.elastic.hang_timeout && !life_.armed()) watch_life();
}

wire::StdinMode Controller::stdin_mode(const core::Seat& seat) const {
  switch (job_.stdin_to) {
    case StdinTo::none:
      return wire::StdinMode::null;
    case StdinTo::all:
      return wire::StdinMode::relay;
    case StdinTo::rank:
      break;
  }
  if (seat.rank.value != static_cast<std::uint32_t>(job_.stdin_rank)) return wire::StdinMode::null;
  return fleet_.is_local(seat.host) && Input::can_be_inherited() ? wire::StdinMode::inherit
                                                                 : wire::StdinMode::relay;
}

void Controller::perform(const core::StartWorker& order) {
  const auto& seat = world_.seats[order.rank.value];
  auto& session = fleet_.at(seat.host);
  const auto directory = session.job_directory();
  core::WorldFacts world;
  world.master_addr = master_address_;
  world.master_port = std::to_string(master_port_);
  if (job_.torch_store == TorchStore::trainrun) {
    world.agent_store = true;
    world.master_addr = "127.0.0.1";
    world.master_port = std::to_string(session.door_port(wire::DoorKind::torch_store));
  }
  world.rendezvous = fmt::format("127.0.0.1:{}", session.door_port());
  if (const auto port = session.door_port(wire::DoorKind::horovod); port != 0)
    world.horovod_port = std::to_string(port);
  world.key_file = directory + "/key";
  world.job_directory = directory;
  // Old files of other generations must not be taken for this one's.
  world.error_file = order.generation.value == 1
                         ? fmt::format("{}/rank.{}.error.json", directory, order.rank.value)
                         : fmt::format("{}/rank.{}.generation.{}.error.json", directory, order.rank.value,
                                       order.generation.value);
  if (const auto own = addresses_.find(seat.host); own != addresses_.end()) world.address = own->second;
  world.restart_count = restarts_;
  world.all_new = all_new_;
  world.pmix_everywhere = pmix_everywhere_;
  world.gpus = order.share.gpus;

  const auto& program = job_.programs[seat.program];
  wire::Start start;
  start.worker = order.worker;
  start.generation = order.generation;
  start.argv = program.argv;
  start.directory = program.directory;
  start.env = core::worker_env(job_, world_, order.rank, world, &session.facts());
  if (order.share.lacks) return cannot_start(order, *order.share.lacks);
  start.cpus = order.share.cpus;
  if (job_.report_bindings)
    console_.say(fmt::format("rank {} on {}: {}", order.rank.value, job_.hosts.hosts[seat.host.value].name,
                             core::binding_words(start.cpus, session.facts())));
  start.stdin_mode = stdin_mode(seat);
  start.pmi = core::offers_pmi(job_, world);
  start.pmix = core::offers_pmix(job_, world);
  start.pty = job_.pty.value_or(start.pmix);
  start.batch = core::runs_in_batch(job_, seat, session.facts());
  if (start.pmix) introduce_world(seat.host, order);
  if (start.pmi || start.pmix)
    start.place = {seat.rank, static_cast<std::uint32_t>(world_.seats.size()), seat.local_size,
                   static_cast<std::uint32_t>(seat.program), mapping_};
  if (start.stdin_mode == wire::StdinMode::relay) input_.add(order.worker);
  session.send(start);
}

// With --oversubscribe more ranks may come to a machine than it has slots.
void Controller::cannot_start(const core::StartWorker& order, const Error& error) {
  const auto& host = job_.hosts.hosts[world_.seats[order.rank.value].host.value].name;
  console_.say(fmt::format("{}: {} (try: {})", host, error.message, error.hint));
  loop_.post([this, worker = order.worker] {
    event(core::WorkerNotStarted{worker, ExitStatus::not_started(SpawnStage::affinity, EINVAL)});
  });
}

// Named workers are told to their own hosts alone.
void Controller::perform(const core::SignalWorkers& order) {
  if (order.workers.empty()) return fleet_.send_all(wire::Signal{{}, order.number, order.deep, true});
  std::map<HostIndex, std::vector<WorkerId>> by_host;
  for (const auto worker : order.workers)
    if (const auto* seat = machine_.seat_of(worker)) by_host[seat->host].push_back(worker);
  for (auto& [host, workers] : by_host)
    fleet_.at(host).send(wire::Signal{std::move(workers), order.number, order.deep, true});
}

void Controller::perform(const core::Sweep& order) {
  fleet_.at(order.host)
      .send(wire::Sweep{order.generation ? order.generation->value : 0, order.workers, !order.generation});
}

void Controller::perform(const core::Announce& order) {
  const auto change = order.hosts_come && order.hosts_leave ? rendezvous::Change::both
                      : order.hosts_leave                   ? rendezvous::Change::leaving
                                                            : rendezvous::Change::added;
  rendezvous_.announce(order.generation, change, order.leaving,
                       order.hosts_leave ? "hosts will leave" : "hosts are ready");
}

void Controller::perform(const core::Dismiss& order) { rendezvous_.dismiss(order.worker); }

// Not within a step of the brain, which an answer would enter again.
void Controller::perform(const core::AskForHosts&) {
  if (!ask_for_hosts_) return;
  loop_.post([this] {
    if (ask_for_hosts_) ask_for_hosts_();
  });
}

void Controller::perform(const core::EndGeneration& order) {
  const auto reason = output::reason_for_members(order);
  if (!order.culprit) {
    rendezvous_.end(order.generation, reason);
    return perform(exchange_.end(order.generation, reason));
  }
  const auto& host = job_.hosts.hosts[world_.seats[order.culprit->value].host.value].name;
  rendezvous_.member_lost(order.generation, *order.culprit, host, reason);
  perform(
      exchange_.end(order.generation, fmt::format("rank {} on {} {}", order.culprit->value, host, reason)));
}

void Controller::perform(const core::StopHost& order) { fleet_.at(order.host).stop(); }

void Controller::perform(const core::AbandonHost& order) {
  rendezvous_.host_gone(order.host);
  fleet_.abandon(order.host);
}

void Controller::perform(const core::Arm& order) {
  auto& timer = timers_[order.deadline];
  if (!timer) timer = std::make_unique<io::Timer>(loop_);
  auto passed = [this, deadline = order.deadline] { event(core::DeadlinePassed{deadline}); };
  if (order.deadline != core::Deadline::job) return timer->arm(order.at, std::move(passed));
  // What a batch system, or somebody who pays, allows goes on while the job is stopped.
  job_deadline_ = io::real_at(order.at);
  timer->arm_real(*job_deadline_, [this, passed = std::move(passed)] {
    asked_to_end();
    passed();
  });
}

void Controller::perform(const core::Disarm& order) {
  if (const auto it = timers_.find(order.deadline); it != timers_.end()) it->second->disarm();
}

void Controller::perform(const core::Tell& order) {
  if (events_) events_->write(output::event_line(moment(), machine_.placement().generation, order.notice));
  if (core::is_detail(order.notice) && job_.verbose == 0) return;
  for (const auto& line : output::words(order.notice)) console_.say(line);
  if (const auto* seen = std::get_if<core::notice::RankInspected>(&order.notice))
    if (const auto stack = stacks_.extract(seen->who.worker))
      console_.show_stack(seen->who.rank, stack.mapped());
}

}  // namespace trainrun
