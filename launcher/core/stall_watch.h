// Tells of ranks of a program on `comm` that wait in an operation to which others of its group have not come.
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
    std::uint64_t sequence = 0;  // among the group's
    std::uint64_t bytes = 0;     // of one rank's buffer
    bool inside = false;
    std::uint32_t group = all_ranks;
    std::uint32_t members = 0;  // of the group, where it is not that of all ranks
  };

  // Ranks that wait for so long are told of, each operation once.
  explicit StallWatch(Duration limit) : limit_(limit) {}

  void operated(WorkerId worker, Operation operation, Instant now);
  // Its operations are others than those of the world before.
  void begin_world() { groups_.clear(), inside_.clear(); }

  // A line for each operation in which a rank of `ranks`, all of the world, waits for too long while others
  // are behind. A group whose members are all in the same operation waits for the network, or computes.
  std::vector<std::string> look(const std::vector<std::pair<Rank, WorkerId>>& ranks, Instant now);
  // When that should be asked next; nothing while no rank is in an operation. Who asks much later has stood
  // still, as after ^Z: then ranks wait from now on.
  [[nodiscard]] std::optional<Instant> next_look() const;

 private:
  struct Told : Operation {
    Instant since{};
  };
  struct Group {
    std::map<WorkerId, Told> last;
    std::optional<std::uint64_t> told{};  // the sequence of the last operation that was told of
  };

  bool has_room();  // for one more group
  std::optional<std::string> line(std::uint32_t number, Group& group,
                                  const std::vector<std::pair<Rank, WorkerId>>& ranks, Instant now) const;

  Duration limit_;
  std::map<std::uint32_t, Group> groups_;
  std::map<WorkerId, std::uint32_t> inside_;  // the groups in whose operations they are
  std::optional<Instant> due_;                // of the next look
};

}  // namespace trainrun::core
