// Which rank runs on which host.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/base/id.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/ranks.h"

namespace trainrun::core {

struct Placement {
  Generation generation;
  std::vector<Seat> seats;   // seats[i].rank == i
  std::uint32_t groups = 0;  // hosts that have ranks

  friend bool operator==(const Placement&, const Placement&) = default;

  template <class V>
  void fields(V& v) {
    v("generation", generation), v("seats", seats), v("groups", groups);
  }
};

// The order of hosts is law, and no host gets more ranks than it has slots, unless --oversubscribe.
//   slot   hosts are filled one after the other; ranks are contiguous on each host
//   host   one rank a host in turn, while it has slots: rank 0 on the first host, rank 1 on the second, as
//          `mpirun --map-by node` numbers them
//   ppr:N  as slot, but each host takes N; one for which nobody wrote a count has N slots
// --rank-by numbers these places anew, those of each program by themselves.
// --rankfile says it for each rank, and then neither slots nor the rest matter.
// job.ppr > 0 means N a host under slot and host too. With --oversubscribe all slots are filled first, and
// what is left is spread evenly over the hosts, the first ones taking the remainder; N a host stays the
// limit. The parts of an MPMD job take ranks in their order. A single program without a count gets all slots.
//
// Code::usage when the slots do not suffice; the hint is what to write instead.
Result<Placement> place(const JobSpec& job, Generation generation);

}  // namespace trainrun::core
