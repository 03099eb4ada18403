// What the brain orders, performed.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <unordered_set>
#include <utility>

#include "launcher/base/advice.h"
#include "launcher/base/check.h"
#include "launcher/controller.h"
#include "launcher/core/binding.h"
#include "launcher/io/clock.h"
#include "launcher/output/failure_advice.h"
#include "launcher/output/words.h"

namespace trainrun {
namespace {

constexpr std::size_t most_advice = 8;  // in one job

}  // namespace

// ---- what the brain orders

void Controller::perform(const core::AddHost& order) {
  TRAINRUN_CHECK(order.host.value == job_.hosts.hosts.size());
  job_.hosts.hosts.push_back(order.as);
}

void Controller::perform(const core::DialHost& order) {
  port_.forget(order.host);
  fleet_.dial(order.host);
}

// Not within a step of the brain, which the answer would enter again.
void Controller::perform(const core::ReservePort& order) {
  if (const auto ask = port_.want(order, world_.generation().value != 0)) fleet_.at(order.host).send(*ask);
  loop_.post([this] { use_port(); });
}

void Controller::use_port() {
  const auto reserved = port_.take(job_.hosts);
  if (!reserved) return;
  if (!reserved->port) return event(core::PortRefused{reserved->generation, reserved->port.error()});
  master_port_ = *reserved->port;
  event(core::PortReserved{reserved->generation});
}

void Controller::perform(const core::BeginWorld& order) {
  world_.begin(order, fleet_.facts());
  std::vector<RendezvousHub::Member> members;
  std::vector<HostIndex> hosts;
  for (const auto& seat : order.placement.seats) {
    members.push_back({seat, job_.hosts.hosts[seat.host.value].name, world_.address_of(seat.host),
                       order.workers[seat.rank.value]});
    hosts.push_back(seat.host);
  }
  admit_to_stdin(order.workers);
  const std::unordered_set<WorkerId> present(order.workers.begin(), order.workers.end());
  want_another_.clear();
  wanted_.disarm();
  hang_.begin_world([&](WorkerId worker) { return present.contains(worker); });
  stall_.begin_world();
  const auto is_gone = [&](const auto& it) { return !present.contains(it.first); };
  std::erase_if(last_stderr_, is_gone);
  std::erase_if(recorded_, is_gone);
  rendezvous_.begin(world_.generation(), members);
  store_.begin(world_.generation(), world_.all_new() ? order.workers : std::vector<WorkerId>{},
               job_.torch_store == TorchStore::trainrun);
  if (world_.meets_without_torch()) store_.meet_elsewhere(world_.generation());
  exchange_.begin(world_.generation(), std::move(hosts));
  console_.begin_world(world_.placement(), order.workers);
  sign_of_life();
  if (job_.elastic.hang_timeout && !life_.armed()) watch_life();
}

// A survivor that has the stdin of a rank keeps it, whatever its rank is now: two would read a part each.
void Controller::admit_to_stdin(const std::vector<WorkerId>& workers) {
  if (has_stdin_ && std::find(workers.begin(), workers.end(), *has_stdin_) == workers.end())
    has_stdin_.reset();
  const bool shared = job_.stdin_to == StdinTo::all;
  for (std::uint32_t rank = 0; rank < workers.size(); ++rank) {
    const bool gets_it = world_.has_stdin(Rank{rank}) && (shared || !has_stdin_);
    if (input_.admit(workers[rank], gets_it) && gets_it && !shared) has_stdin_ = workers[rank];
  }
}

void Controller::perform(const core::PlanNewcomers& order) {
  world_.plan(order.placement, fleet_.facts());
  console_.add_newcomers(order.placement, order.workers);
}

void Controller::perform(const core::StartWorker& order) {
  if (order.share.lacks) return cannot_start(order, *order.share.lacks);
  const auto host = world_.seat_of(order).host;
  auto& session = fleet_.at(host);
  if (job_.report_bindings)
    console_.say(fmt::format("rank {} on {}: {}", order.rank.value, host_name(host),
                             core::binding_words(order.share.cpus, session.facts())));
  auto start = world_.start(order,
                            {.job_directory = session.job_directory(),
                             .rendezvous = session.door_port(),
                             .torch_store = session.door_port(wire::DoorKind::torch_store),
                             .horovod = session.door_port(wire::DoorKind::horovod),
                             .facts = &session.facts(),
                             .can_inherit_stdin = fleet_.is_local(host) && Input::can_be_inherited()},
                            master_port_);
  const bool is_newcomer = order.generation.value == 0;
  if (job_.stdin_to == StdinTo::rank && !is_newcomer && start.stdin_mode != wire::StdinMode::null) {
    if (has_stdin_)
      start.stdin_mode = wire::StdinMode::null;
    else
      has_stdin_ = order.worker;
  }
  // Before the first rank there is started.
  if (start.pmix)
    if (const auto world = world_.introduction(order, session.facts())) session.send(*world);
  if (start.stdin_mode == wire::StdinMode::relay)
    is_newcomer ? input_.add_newcomer(order.worker) : input_.add(order.worker);
  session.send(start);
}

// With --oversubscribe more ranks may come to a machine than it has slots.
void Controller::cannot_start(const core::StartWorker& order, const Error& error) {
  console_.say(
      fmt::format("{}: {} (try: {})", host_name(world_.seat_of(order).host), error.message, error.hint));
  loop_.post([this, worker = order.worker] {
    event(core::WorkerNotStarted{worker, ExitStatus::not_started(SpawnStage::affinity, EINVAL)});
  });
}

// Named workers are told to their own hosts alone.
void Controller::perform(const core::SignalWorkers& order) {
  loop_.post([this] { fleet_.ask_all(); });  // who has not told of its ends in time is given up
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

std::set<Rank> Controller::survivors() const {
  std::set<Rank> ranks;
  for (const auto& view : machine_.workers())
    if (view.state == core::WorkerState::spawned && machine_.is_member(view.worker))
      ranks.insert(view.seat.rank);
  return ranks;
}

// Those that live on are waited for before what is between them is ended.
void Controller::some_have_ended() {
  if (rendezvous_.waits_to_break()) rendezvous_.break_meshes(world_.generation(), survivors());
}

void Controller::perform(const core::EndGeneration& order) {
  if (order.free_survivors) rendezvous_.break_meshes(order.generation, survivors());
  const auto reason = output::reason_for_members(order);
  if (!order.culprit) {
    rendezvous_.end(order.generation, reason);
    return perform(exchange_.end(order.generation, reason));
  }
  const auto& host = world_.host_of(*order.culprit);
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
  auto passed = [this, deadline = order.deadline] {
    const bool judges = core::judges_hosts(deadline);
    event(core::DeadlinePassed{deadline, judges ? fleet_.late() : std::vector<core::LateHost>{}});
  };
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
  if (const auto* restarting = std::get_if<core::notice::Restarting>(&order.notice)) advise(*restarting);
  if (std::holds_alternative<core::notice::GenerationFormed>(order.notice)) forget_survived_errors();
}

// What the last words of a rank know a cure for fails again after each restart: the cure is not kept for the
// report.
void Controller::advise(const core::notice::Restarting& restarting) {
  const auto* failed = std::get_if<core::cause::RankFailed>(&restarting.cause);
  if (failed == nullptr || failed->status.kind != ExitStatus::Kind::exited) return;
  const auto& who = failed->who;
  core::Failure failure;
  failure.worker = who.worker, failure.rank = who.rank, failure.host = who.host.index;
  failure.status = failed->status;
  const bool raised = console_.raised(who.worker) || recorded_.contains(who.worker);
  const auto advice = output::advise(job_, failure, who.host.name, words_of(who.worker), raised);
  if (advice.hint.empty() || advice.where || advice_.size() == most_advice) return;
  if (advice_.insert(advice.hint).second) console_.say(trainrun::advice(advice.hint));
}

// What survivors wrote when they lost a peer says nothing of what ends them later.
void Controller::forget_survived_errors() {
  std::set<WorkerId> members;
  for (const auto& view : machine_.workers()) {
    members.insert(view.worker);
    if (members_before_.contains(view.worker)) console_.forget_words(view.worker);
  }
  members_before_ = std::move(members);
}

}  // namespace trainrun
