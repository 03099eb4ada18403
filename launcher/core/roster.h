// The hosts of a job: which there are, in what order they serve, how each is, and which may be used now.
//
// What is asked after every event (is anybody still dialled? how many slots are there?) is counted as hosts
// change. Hosts with a history (one that failed, rests, left, or was unlisted) are looked at one by one, all
// others together, so that an event costs the same however many there are. Whoever has to look at all of them
// calls order(); visited() tells how many were looked at so. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/core/host_ledger.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/job_view.h"
#include "launcher/wire/facts.h"

namespace trainrun::core {

struct HostEntry {
  Host host;
  HostState state = HostState::gone;
  bool listed = false;   // in the list of hosts as it is now
  bool kept = false;     // it was there, with ranks, when it was unlisted: it serves where the others cannot
                         // hold a world
  bool leaving = false;  // it said that it will go, or the user removed it: no new world uses it
  bool removed = false;  // by the user
  bool added = false;    // by the user, when no list had it: it stays until they remove it
  bool refused = false;  // it cannot give each of its slots what a rank is to get
  bool sweeping = false;
  bool inspecting = false;
  int stopped_slots = 0;  // by the user
  int failed_dials = 0;   // in a row
  int slots_then = 0;     // when the current world was planned
  Instant retry_at{};
  Instant away_until{};                            // it went by its own word
  std::string note{};                              // what was last said about it
  std::shared_ptr<const wire::HostFacts> facts{};  // of its agent, once there was one
};

class Roster {
 public:
  // Keeps a reference to the job. `listed`: all of its hosts serve.
  Roster(const JobSpec& job, bool listed);

  [[nodiscard]] std::size_t size() const { return hosts_.size(); }
  [[nodiscard]] const HostEntry& at(HostIndex index) const { return hosts_.at(index.value); }
  // The one way to change a host, for all that is counted.
  template <class Change>
  void change(HostIndex index, Change&& change) {
    auto& entry = hosts_.at(index.value);
    const int before = slots_on(index);
    count(index, -1);
    std::forward<Change>(change)(entry);
    count(index, +1);
    if (slots_on(index) < before) shrunk_.insert(index);
  }
  void become(HostIndex index, HostState state) {
    change(index, [state](HostEntry& entry) { entry.state = state; });
  }
  // Known, or new at the end; true when it is new.
  std::pair<HostIndex, bool> find_or_add(const Host& host);

  // In the order of the list as it is now.
  [[nodiscard]] const std::vector<HostIndex>& order() const;
  // The list is `order` now; hosts that are not in it stay known.
  void list(std::vector<HostIndex> order);
  // At the end of the list, unless it is there.
  void list(HostIndex index);

  // ---- slots

  // Without those that the user stopped.
  [[nodiscard]] int slots_on(HostIndex index) const;
  // What the hosts hold that are there, or may be reached, without this one.
  [[nodiscard]] int slots_without(std::optional<HostIndex> host, Instant now) const;
  // Hosts that have lost slots since fits() was called last.
  [[nodiscard]] const std::set<HostIndex>& shrunk() const { return shrunk_; }
  void fits() { shrunk_.clear(); }

  // ---- who may be used

  // Resting hosts that must serve all the same: without them the smallest world could not be held, now or
  // with those that are being dialled. One that could not be reached holds nothing: the next must serve in
  // its place.
  [[nodiscard]] std::set<HostIndex> forgiven(Instant now) const;
  [[nodiscard]] bool usable(HostIndex index, Instant now, const std::set<HostIndex>& forgiven) const;
  // Those that failed come last, and a host more is tried for each of them: a good one behind many bad ones
  // is found.
  [[nodiscard]] std::vector<HostIndex> to_dial(Instant now) const;
  // When a rest ends, or a host is to be dialled again, or may come back.
  [[nodiscard]] std::optional<Instant> next_change(Instant now) const;
  // Hosts that are ready, and would be usable if they did not rest.
  [[nodiscard]] std::vector<HostIndex> resting(Instant now, const std::set<HostIndex>& forgiven) const;
  // Slots of the usable hosts in that state.
  [[nodiscard]] int usable_slots(HostState state, Instant now, const std::set<HostIndex>& forgiven) const;

  void could_not_be_reached(HostIndex index, Instant now);
  // Its agent is gone.
  void left(HostIndex index, Instant now);
  void host_failed(HostIndex index, Instant now, Duration atleast = Duration::zero());
  // True when this makes the host rest.
  bool worker_failed(HostIndex index, Instant now);
  void forgive(HostIndex index);
  [[nodiscard]] const HostLedger& ledger() const { return ledger_; }

  // ---- what is counted

  struct Counts {
    std::array<int, 4> in{};  // by HostState
    int listed = 0, sweeping = 0, inspecting = 0;
    friend bool operator==(const Counts&, const Counts&) = default;
  };
  [[nodiscard]] int count(HostState state) const { return counts_.in[static_cast<std::size_t>(state)]; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  // Not gone yet, and not listed any more or leaving.
  [[nodiscard]] const std::set<HostIndex>& unwanted() const { return unwanted_; }

  // Hosts that were looked at one by one, to show that no event costs what grows with the job.
  [[nodiscard]] std::uint64_t visited() const { return visited_; }
  // Empty when what is counted is what all hosts add up to; costs O(hosts).
  [[nodiscard]] std::string broken_invariant() const;

 private:
  // Listed, and nothing ever befell it: it is usable, and counted with all others.
  [[nodiscard]] bool plain(HostIndex index) const;
  [[nodiscard]] int smallest_world() const;
  void count(HostIndex index, int by);
  // Listed hosts that are not plain.
  [[nodiscard]] const std::set<HostIndex>& others() const;

  const JobSpec& job_;
  std::vector<HostEntry> hosts_;
  std::map<std::string, HostIndex> known_;
  std::vector<HostIndex> order_;
  HostLedger ledger_;
  Counts counts_;
  std::array<int, 4> plain_slots_{};  // by HostState
  std::set<HostIndex> others_, unwanted_, shrunk_;
  mutable std::uint64_t visited_ = 0;
};

}  // namespace trainrun::core
