// What a reduction does to the elements of all ranks, from what they gave to what they get.
#pragma once

#include <cstddef>

#include "comm/kernels.h"

namespace trainrun::comm {

struct Reduction {
  trc_dtype dtype = TRC_U8;
  trc_op op = TRC_SUM;
  double before = 1, after = 1;  // factors of each rank's elements, and of the results
  int ranks = 1;

  // Nothing but the kernel of the type itself is needed.
  [[nodiscard]] bool plain() const {
    return wide_type(dtype, op) == dtype && before == 1 && after == 1 && op != TRC_MEAN;
  }
};

// `in` has a buffer of each rank. They are combined in the order of the ranks, in the wide type, and rounded
// once. `out` may be one of them.
void reduce_all(const Reduction& reduction, void* out, const void* const* in, std::size_t count);

// The same in parts, for ranks that hand on what they have combined so far, in the wide type. `wide` may be
// `in` or `out` where that is the type itself.
void begin_reduction(const Reduction& reduction, void* wide, const void* in, std::size_t count);
void end_reduction(const Reduction& reduction, void* out, void* wide, std::size_t count);

}  // namespace trainrun::comm
