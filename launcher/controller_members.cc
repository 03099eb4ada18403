// What workers on `comm` tell through the rendezvous, and what is found when nobody tells anything.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "launcher/base/strings.h"
#include "launcher/controller.h"

namespace trainrun {
namespace {

// Over which an agent measures what a worker does that seems to hang.
constexpr std::uint32_t inspection_sample_ms = 500;

}  // namespace

// ---- a world that seems to hang

void Controller::sign_of_life() {
  last_life_ = io::Loop::now();
  if (std::exchange(inspecting_, false)) event(core::WorldAlive{});
}

void Controller::watch_life() {
  const auto limit = *job_.elastic.hang_timeout;
  if (console_.backlog() > most_backlog) sign_of_life();  // ranks are silent since we take nothing
  const auto silence = io::Loop::now() - last_life_;
  if (silence >= limit) {
    last_life_ = io::Loop::now();  // the next look is a whole time later
    event(core::WorldSilent{silence});
  }
  life_.arm(last_life_ + limit, [this] { watch_life(); });
}

void Controller::perform(const core::Inspect&) {
  looks_.clear();
  stacks_.clear();
  inspecting_ = true;
  fleet_.send_all(wire::Inspect{++inspection_, inspection_sample_ms});
}

void Controller::inspected(HostIndex host, const wire::Inspected& found) {
  if (found.sequence != inspection_ || !inspecting_) return;
  std::string evidence = fmt::format("state {}, {} ms of CPU and {} bytes of I/O in {} ms", found.state,
                                     found.cpu_ms, found.io_bytes, inspection_sample_ms);
  if (!found.waits_in.empty()) evidence += ", waits in " + found.waits_in;
  if (const auto it = last_operation_.find(found.worker); it != last_operation_.end()) evidence += it->second;
  const auto spoke = last_output_.find(found.worker);
  const auto silent =
      spoke == last_output_.end() ? std::nullopt : std::optional(io::Loop::now() - spoke->second);
  evidence += silent ? ", last output " + format_duration(*silent) + " ago" : ", no output so far";
  const auto* seat = seat_on(host, found.worker);
  if (seat != nullptr) {
    const auto operation = last_operation_.find(found.worker);
    const auto frame = core::innermost_frame(found.stack);
    const bool busy = found.state == "R" || found.cpu_ms > inspection_sample_ms / 4;
    if (const auto& name = frame.mpi.empty() ? frame.name : frame.mpi; !name.empty())
      evidence += ", in " + name;
    looks_.push_back({seat->rank, busy, operation == last_operation_.end() ? "" : operation->second.substr(2),
                      silent, frame, found.waits_in});
    if (!found.stack.empty()) {
      const auto where = console_.keep_stack(seat->rank, found.stack);
      if (where.empty()) stacks_[found.worker] = found.stack;
      evidence += where;
    }
  }
  event(core::WorkerInspected{found.worker, found.state.starts_with('T') || found.state.starts_with('t'),
                              std::move(evidence)});
}

// Once all were seen: with one missing nobody knows what it does.
void Controller::compare_looks() {
  if (looks_.size() != world_.seats.size()) return;
  std::sort(looks_.begin(), looks_.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  if (const auto odd = core::odd_one_out(looks_)) say(*odd);
  looks_.clear();
}

// ---- members, as the rendezvous sees them

RendezvousHub::Events Controller::members() {
  return {
      [this](Generation generation, Rank rank) {
        store_.meet_elsewhere(generation);
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
      },
      [this](Generation generation, WorkerId worker, const std::string& op, std::uint64_t sequence,
             bool inside) {
        if (machine_.seat_of(worker) == nullptr) return;
        sign_of_life();
        if (std::exchange(progressed_, generation) != generation) event(core::WorldProgressed{generation});
        last_operation_[worker] =
            fmt::format(", {} {} number {}", inside ? "in" : "after", quoted(op, 40), sequence);
      },
      [this](Generation generation, const rendezvous::TorchStore::Arrivals& came) {
        // Of connections that are nobody's each may be a rank's: then nobody can be named.
        if (came.unknown == 0) ranks_wait(generation, came.ranks, "init_process_group");
      },
      [this](HostIndex host, const std::string& why) {
        console_.say(
            fmt::format("{}: a client of PyTorch's store was turned away: {} (try: --torch-store rank0)",
                        job_.hosts.hosts[host.value].name, why));
      },
      [this](Generation generation, const std::set<Rank>& came) { ranks_wait(generation, came, "hvd.init"); },
      [this](HostIndex host, const std::string& why) {
        console_.say(fmt::format("{}: a client of Horovod's rendezvous was turned away: {}",
                                 job_.hosts.hosts[host.value].name, why));
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
      [this](WorkerId worker, const std::string& why) {
        if (const auto* seat = machine_.seat_of(worker))
          console_.say(fmt::format("rank {} on {} could not be told that hosts change: {}", seat->rank.value,
                                   job_.hosts.hosts[seat->host.value].name, why));
      }};
}

void Controller::ranks_wait(Generation generation, const std::set<Rank>& came, const std::string& where) {
  if (generation != world_.generation) return;
  std::vector<WorkerId> absent;
  for (const auto& worker : machine_.workers()) {
    if (!came.contains(worker.seat.rank)) absent.push_back(worker.worker);
  }
  event(core::RanksAbsent{generation, with_last_words(absent), where});
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
