// Tells of ranks of a program on `comm` that wait in an operation to which others of its group have not come.
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/base/time.h"

namespace trainrun::core {

class StallWatch {
 public:
  static constexpr std::uint32_t all_ranks = 0;  // the number of their group

  // That of a member of `group`, which is in it or was in it last.
  struct Operation {
    std::string name;
    std::uint64_t sequence = 0;  // among the group's; 0: it is being made
    std::uint64_t bytes = 0;     // of one rank's buffer
    bool inside = false;
    std::uint32_t group = all_ranks;
    std::uint32_t members = 0;  // of the group, where it is not that of all ranks
  };

  // Ranks that wait for so long are told of, each operation once.
  explicit StallWatch(Duration limit) : limit_(limit) {}

  void operated(WorkerId worker, Operation operation, Instant now);
  // Its operations are others than those of the world before.
  void begin_world() { workers_.clear(), told_.clear(); }

  // A line for each operation in which a rank of `ranks`, all of the world, waits for too long while others
  // have not come; of those that began to wait first, if they are many. A group whose members are all in the
  // same operation waits for the network, or computes. `silent`: what is known of these is old.
  std::vector<std::string> look(const std::vector<std::pair<Rank, WorkerId>>& ranks, Instant now,
                                const std::set<Rank>& silent = {});
  // When that should be asked next; nothing while no rank is in an operation. Who asks much later has stood
  // still, as after ^Z: then ranks wait from now on.
  [[nodiscard]] std::optional<Instant> next_look() const { return due_; }

 private:
  // What is known of a rank does not grow with its groups.
  struct Worker {
    Operation last;
    Instant since{};
    std::vector<std::pair<std::uint32_t, std::uint64_t>> recent;  // groups, and how far it got in them
  };
  // In the operation of a group that is the furthest in which anybody is.
  struct Wait {
    const Operation* operation = nullptr;
    std::vector<std::uint32_t> ranks;
    Instant since{};
  };
  using Ranks = std::vector<std::pair<Rank, WorkerId>>;

  [[nodiscard]] std::map<std::uint32_t, Wait> waits(const Ranks& ranks) const;
  // Words: who has not come to the operation; empty: nobody is known to be late.
  [[nodiscard]] std::string late_for(const Wait& wait, const Ranks& ranks,
                                     const std::set<Rank>& silent) const;

  Duration limit_;
  std::map<WorkerId, Worker> workers_;
  std::map<std::uint32_t, std::uint64_t>
      told_;                    // by group in which one waits: the operation that was told of
  std::optional<Instant> due_;  // of the next look
};

}  // namespace trainrun::core
