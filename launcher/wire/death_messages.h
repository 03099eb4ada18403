// What agents of a job that goes on without a rank are told (--on-failure ignore).
#pragma once

#include <cstdint>

#include "launcher/base/id.h"

namespace trainrun::wire {

// A rank has failed, here or elsewhere, and the others go on: those that speak PMIx are told, as MPI's ULFM
// wants it.
struct RankDied {
  static constexpr std::uint8_t type = 63;
  Generation generation;
  Rank rank;
  template <class V>
  void fields(V& v) {
    v("generation", generation), v("rank", rank);
  }
};

}  // namespace trainrun::wire
