// A rank's place among the others, once it is known which host it is on. The arithmetic of torchelastic and
// Horovod, which frameworks rely on to the letter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/base/id.h"

namespace trainrun::core {

struct Seat {
  Rank rank;
  HostIndex host;
  std::uint32_t local_rank = 0, local_size = 0;  // among the ranks of this host
  std::uint32_t group_rank = 0;                  // of this host, among the hosts that have ranks
  std::uint32_t cross_rank = 0, cross_size = 0;  // among the ranks with this local_rank, in host order
  std::size_t program = 0;                       // which part of an MPMD job
  std::uint32_t slot =
      0;  // on this host: whose cores and GPUs it has. The local rank, but where survivors keep theirs

  friend bool operator==(const Seat&, const Seat&) = default;

  template <class V>
  void fields(V& v) {
    v("rank", rank), v("host", host), v("local_rank", local_rank), v("local_size", local_size),
        v("group_rank", group_rank), v("cross_rank", cross_rank), v("cross_size", cross_size),
        v("program", program), v("slot", slot);
  }
};

// Fills in local_rank (in rank order on each host), slot (the same), local_size, group_rank (hosts in the
// order of their first rank), cross_rank and cross_size from `rank` and `host`, which are set, with
// seats[i].rank == i. Gives the number of hosts that have ranks.
std::uint32_t number_seats(std::vector<Seat>& seats);

// "gpu2 (ranks 8-15)", "gpu2 (rank 3)", "gpu2 (ranks 0-1,4)"; "gpu2" without ranks. `ranks` ascend.
std::string name_with_ranks(const std::string& host, const std::vector<Rank>& ranks);

}  // namespace trainrun::core
