// Who is where: the placement of the current generation, or of the one that is being formed, its workers, and
// those of earlier ones that have not gone yet.
//
// What is asked after every event (does anybody still start? does anybody survive?) is counted as workers
// change, so that it costs the same however many there are. Whoever has to look at all of them calls all(),
// as a disruption does several times; visited() tells how many were looked at so.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/core/placement.h"
#include "launcher/core/worker.h"

namespace trainrun::core {

class World {
 public:
  explicit World(Placement first) { plan(std::move(first)); }

  // ---- the placement

  [[nodiscard]] const Placement& placement() const { return placement_; }
  [[nodiscard]] Generation generation() const { return placement_.generation; }
  [[nodiscard]] const std::vector<Seat>& seats() const { return placement_.seats; }
  [[nodiscard]] int size() const { return static_cast<int>(placement_.seats.size()); }
  // The generation that is formed next; nobody is in it yet.
  void plan(Placement next);
  // Its workers are ordered: `members`, by rank, are all that it has.
  void begin(std::vector<WorkerId> members);
  [[nodiscard]] bool begun() const { return begun_; }
  // It is over. Its members are what they are, until the next one begins.
  void end() { begun_ = false; }
  // That the generation has on the host; none before it has begun.
  [[nodiscard]] std::vector<Rank> ranks_on(HostIndex host) const;

  // ---- the workers

  // A new one for the seat. Ids are never used again, so that what is told of an old one is never taken for
  // news of a new one.
  WorkerId order(const Seat& seat, Instant now);
  // The same for one that is to be a member later.
  WorkerId order_newcomer(const Seat& seat, Instant now);
  // It has its place in the generation that begins.
  void admit(WorkerId id, const Seat& seat);
  [[nodiscard]] const Worker* find(WorkerId id) const;
  [[nodiscard]] const Worker& at(WorkerId id) const { return workers_.at(id); }
  [[nodiscard]] const Worker* member_at(Rank rank) const;
  // The one way to change a worker, for all that is counted; it never changes its host.
  template <class Change>
  void change(WorkerId id, Change&& change) {
    auto& worker = workers_.at(id);
    count(worker, -1);
    std::forward<Change>(change)(worker);
    count(worker, +1);
  }
  // Its fate is at least that.
  void doom(WorkerId id, Fate fate);
  // It ended in its own way, or never ran.
  void failed(WorkerId id, const Failure& failure, std::string last_words);
  void forget(WorkerId id);

  using Workers = std::map<WorkerId, Worker>;
  // In the order of ids. The caller may change them on the way.
  [[nodiscard]] const Workers& all() const;
  // Those on the host, in the same order.
  [[nodiscard]] const std::vector<WorkerId>& on(HostIndex host) const;
  // Members that failed, in the same order.
  [[nodiscard]] const std::set<WorkerId>& failed() const { return failed_; }
  // Those that live and have no place any more, in the same order.
  [[nodiscard]] const std::set<WorkerId>& dismissed() const { return dismissed_; }
  [[nodiscard]] WorkerId last() const { return last_; }  // that was ordered
  // Those that may join, in the same order.
  [[nodiscard]] const std::set<WorkerId>& newcomers() const { return newcomers_; }

  // ---- what is counted

  struct Counts {
    int members = 0;
    std::array<int, 4> members_in{};  // by WorkerState
    int alive = 0;                    // ordered or spawned, members or not
    int to_end = 0;                   // ... that are condemned
    int survivors = 0;
    int survivors_that_wait = 0;    // for their next place
    int members_that_wait = 0;      // alive
    int newcomers_that_wait = 0;    // for their first place
    int awaited_members = 0;        // see Worker::awaited
    int joined = 0;                 // the generation's rendezvous, alive
    int took_part = 0;              // members that came to the rendezvous, of this generation or an earlier
    int ended_well = 0;             // see Worker::ended_well
    int finished_badly = 0;         // members
    int alive_without_failure = 0;  // members
    [[nodiscard]] int members_that(WorkerState state) const {
      return members_in[static_cast<std::size_t>(state)];
    }
    friend bool operator==(const Counts&, const Counts&) = default;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] bool all_members(WorkerState state) const {
    return counts_.members_that(state) == counts_.members;
  }

  struct OnHost {
    std::vector<WorkerId> workers{};  // by id
    int live_members = 0;             // not finished
    int unfinished = 0;               // members or not
    int survivors = 0;
    std::vector<Rank> ranks{};  // of the generation
  };
  [[nodiscard]] bool has_live_members(HostIndex host) const { return on_host(host).live_members > 0; }
  [[nodiscard]] bool has_unfinished(HostIndex host) const { return on_host(host).unfinished > 0; }
  [[nodiscard]] int survivors_on(HostIndex host) const { return on_host(host).survivors; }

  // Workers that were looked at one by one, to show that no event costs what grows with the job.
  [[nodiscard]] std::uint64_t visited() const { return visited_; }
  // Empty when what is counted is what all workers add up to; costs O(ranks).
  [[nodiscard]] std::string broken_invariant() const;

 private:
  [[nodiscard]] const OnHost& on_host(HostIndex host) const;
  [[nodiscard]] OnHost& on_host(HostIndex host);
  void count(const Worker& worker, int by);
  static void count(const Worker& worker, int by, Counts& counts);

  Placement placement_;
  bool begun_ = false;
  Workers workers_;
  WorkerId last_{};
  std::vector<WorkerId> by_rank_;  // the members of the generation that has begun last
  std::vector<OnHost> on_;         // by HostIndex
  std::set<WorkerId> failed_, dismissed_, newcomers_;
  Counts counts_;
  mutable std::uint64_t visited_ = 0;
};

}  // namespace trainrun::core
