// Who has come to the store of PyTorch's that rank 0 holds, by what the agents see of it, and when it is time
// to say who has not. Pure.
//
// Two findings, each once a generation: some wait for others, a while after they came; and nobody has come
// though all have loaded PyTorch, for longer: each may take itself for a world of one, as programs of
// Accelerate do that are not told to use the CPU. Ranks that meet by other means, as those of Horovod, MPI
// and comm, are not spoken of.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/wire/messages.h"

namespace trainrun {

class StoreCensus {
 public:
  static constexpr Duration waits_for = seconds(10), alone_for = seconds(30);

  // `workers` by rank; none: there is nothing to be found out.
  void begin(Generation generation, std::vector<WorkerId> workers);
  // The ranks of this generation meet by other means, or are about to.
  void meet_elsewhere(Generation generation) { told_alone_ |= generation == generation_; }
  // It has ended well, and will not come any more.
  void ended(WorkerId worker) { ended_.insert(worker); }
  // Gives who is not there, by rank, if it is time to say so; all of them: nobody is. Nobody is named by what
  // was seen before the time to wait had passed.
  std::vector<WorkerId> seen(const wire::StoreSeen& by_agent, Instant now);

 private:
  [[nodiscard]] std::vector<WorkerId> missing_after(Instant when) const;

  Generation generation_{};
  std::vector<WorkerId> workers_;
  std::set<WorkerId> met_, ended_;
  std::map<WorkerId, Instant> absent_at_;  // when it was last seen to be
  std::map<WorkerId, Instant> loaded_at_;  // when it was first seen to have PyTorch
  std::optional<Instant> first_met_;
  bool told_waits_ = false, told_alone_ = false;
};

}  // namespace trainrun
