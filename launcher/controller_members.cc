// What workers on `comm` tell through the rendezvous, and what is found when nobody tells anything.
#include <fmt/format.h>
#include <signal.h>

#include <utility>

#include "launcher/base/utf8.h"
#include "launcher/controller.h"
#include "launcher/store_words.h"

namespace trainrun {
namespace {

// Of ranks that have left their world and want another one: the rest notices the same soon.
constexpr Duration others_come_within = seconds(10);

}  // namespace

// ---- a world that seems to hang

void Controller::sign_of_life() {
  if (hang_.alive(io::Loop::now())) event(core::WorldAlive{});
}

void Controller::watch_life() {
  if (console_.is_behind()) sign_of_life();  // ranks are silent since we take nothing
  if (const auto silence = hang_.too_silent(io::Loop::now())) event(core::WorldSilent{*silence, awaited()});
  if (const auto next = hang_.next_look()) life_.arm(*next, [this] { watch_life(); });
}

// For whom all others wait, in torch's store or in hvd.init.
std::vector<WorkerId> Controller::awaited() const {
  auto awaited = store_.awaited();
  for (const auto& worker : machine_.workers())
    if (rendezvous_.awaited_by_horovod(world_.generation(), worker.seat.rank))
      awaited.push_back(worker.worker);
  return awaited;
}

void Controller::watch_operations() {
  const auto next = stall_.next_look();
  if (next && *next <= io::Loop::now()) {
    std::vector<std::pair<Rank, WorkerId>> ranks;
    for (const auto& worker : machine_.workers()) ranks.emplace_back(worker.seat.rank, worker.worker);
    std::set<Rank> silent;
    for (const auto rank : rendezvous_.silent(io::Loop::now())) silent.insert(Rank{rank});
    for (const auto& line : stall_.look(ranks, io::Loop::now(), silent)) console_.say(line);
  }
  if (const auto at = stall_.next_look()) stalled_.arm(*at, [this] { watch_operations(); });
}

void Controller::perform(const core::Inspect&) {
  stacks_.clear();
  fleet_.send_all(hang_.inspect());
}

void Controller::inspected(HostIndex host, const wire::Inspected& found) {
  const auto* seat = seat_on(host, found.worker);
  if (seat == nullptr || !machine_.is_member(found.worker) || !hang_.awaits(found.sequence)) return;
  auto evidence = hang_.seen(seat->rank, found, io::Loop::now());
  if (!found.stack.empty()) {
    const auto where = console_.keep_stack(seat->rank, found.stack);
    if (where.empty()) stacks_[found.worker] = found.stack;
    evidence += where;
  }
  event(core::WorkerInspected{found.worker, found.state.starts_with('T') || found.state.starts_with('t'),
                              std::move(evidence)});
}

// ---- members, as the rendezvous sees them

RendezvousHub::Events Controller::members() {
  return {
      [this](Generation generation, Rank rank) {
        store_.joined(generation, rank);
        event(core::MemberJoined{generation, rank});
      },
      [this](Generation generation, bool elastic) {
        event(core::WorldJoined{generation, elastic});
      },
      [this](Generation generation, const rendezvous::Verdict& verdict) {
        std::vector<Rank> culprits;
        for (const auto rank : rendezvous::at_fault(verdict)) culprits.push_back(Rank{rank});
        event(core::WorldBroken{generation, rendezvous::describe(verdict), std::move(culprits)});
      },
      [this](Generation generation, WorkerId worker) {
        event(core::MemberWaits{generation, worker});
        if (generation != world_.generation()) return;
        if (const auto* seat = machine_.seat_of(worker)) want_another_.insert(seat->rank);
        if (!wanted_.armed())
          wanted_.arm(io::Loop::now() + others_come_within, [this, generation] {
            if (generation == world_.generation())
              ranks_wait(generation, want_another_, "the rendezvous of the next world");
          });
      },
      [this](Generation generation, WorkerId worker, const rendezvous::Pulse& pulse) {
        if (machine_.seat_of(worker) == nullptr || generation != world_.generation()) return;
        sign_of_life();
        hang_.operated(worker, pulse.op, pulse.sequence, pulse.in_operation);
        if (!pulse.connects() && std::exchange(progressed_, generation) != generation)
          event(core::WorldProgressed{generation});
        if (pulse.group == rendezvous::Pulse::steps) return;
        if (pulse.connected() && pulse.rank == 0 && job_.verbose > 0)
          console_.say(fmt::format("rank 0 is {}", printable(pulse.op)));
        stall_.operated(
            worker, {pulse.op, pulse.sequence, pulse.bytes, pulse.in_operation, pulse.group, pulse.members},
            io::Loop::now());
        if (!stalled_.armed()) watch_operations();
      },
      [this](Generation generation, const rendezvous::TorchStore::Arrivals& came) {
        // Of connections that are nobody's each may be a rank's: then nobody can be named.
        if (came.unknown == 0) ranks_wait(generation, came.ranks, "init_process_group");
      },
      [this](Generation generation, const rendezvous::TorchClash& clash) {
        if (generation == world_.generation()) console_.say(clash_line(clash));
      },
      [this](Generation generation, std::uint32_t member) {
        if (generation == world_.generation())
          console_.say(beyond_line(world_.placement().seats.size(), member));
      },
      [this](HostIndex host, const std::string& why) {
        tell_refused(host,
                     fmt::format("PyTorch's store was turned away: {} (try: --torch-store rank0)", why));
      },
      [this](Generation generation, const std::set<Rank>& came) { ranks_wait(generation, came, "hvd.init"); },
      [this](HostIndex host, const std::string& why) {
        tell_refused(host, fmt::format("Horovod's rendezvous was turned away: {}", why));
      },
      [this](Generation) {
        if (job_.elastic.enabled() || std::exchange(told_of_horovod_, true)) return;
        console_.say("hvd.elastic: a failure ends the job (try: --max-restarts N; the others go on)");
      },
      [this](Generation generation) {
        event(core::WorldJoined{.generation = generation, .elastic = true, .horovod = true});
      },
      [this](WorkerId worker) {
        const auto* seat = machine_.seat_of(worker);
        auto* session = seat == nullptr ? nullptr : fleet_.find(seat->host);
        if (session != nullptr) session->send(wire::Signal{{worker}, SIGKILL, false});
      },
      [this](Generation generation, Rank rank) {
        event(core::ExchangeBroken{generation, {rank}, {}, true});
      },
      [this](WorkerId worker, const std::string& why) {
        if (const auto* seat = machine_.seat_of(worker))
          console_.say(fmt::format("rank {} on {} could not be told that hosts change: {}", seat->rank.value,
                                   job_.hosts.hosts[seat->host.value].name, why));
      }};
}

// Whoever is on the host may come again and again, with something else each time: each is told once, and not
// without end.
void Controller::tell_refused(HostIndex host, const std::string& what) {
  constexpr std::size_t most = 100;
  if (refusals_.size() > most) return;
  const auto line = fmt::format("{}: a client of {}", job_.hosts.hosts[host.value].name, what);
  if (!refusals_.insert(line).second) return;
  console_.say(refusals_.size() <= most ? line : "more clients were turned away: this is not told any more");
}

void Controller::ranks_wait(Generation generation, const std::set<Rank>& came, const std::string& where) {
  if (generation != world_.generation()) return;
  std::vector<WorkerId> absent;
  for (const auto& worker : machine_.workers()) {
    if (!came.contains(worker.seat.rank)) absent.push_back(worker.worker);
  }
  event(core::RanksAbsent{generation, with_last_words(absent), where});
}

void Controller::tell(const StoreFindings& found) {
  if (!found.absent.empty())
    event(core::RanksAbsent{world_.generation(), with_last_words(found.absent),
                            fmt::format("init_process_group at MASTER_PORT {}{}", store_.port(),
                                        job_.torch_store == TorchStore::trainrun
                                            ? ", the launcher's store (scripts leave MASTER_ADDR and "
                                              "MASTER_PORT as they are set),"
                                            : "")});
  const auto name = [this](WorkerId worker) {
    const auto* seat = machine_.seat_of(worker);
    if (seat == nullptr) return std::string("a rank");
    return fmt::format("rank {} on {}", seat->rank.value, job_.hosts.hosts[seat->host.value].name);
  };
  for (const auto& line : store_lines(found, store_.port(), name)) console_.say(line);
}

std::vector<core::AbsentWorker> Controller::with_last_words(const std::vector<WorkerId>& workers) const {
  std::vector<core::AbsentWorker> out;
  for (const auto worker : workers) {
    auto words = console_.last_words(worker);
    if (words.empty()) words = console_.last_output(worker);
    out.push_back({worker, words.empty() ? std::string{} : words.back()});
  }
  return out;
}

}  // namespace trainrun
