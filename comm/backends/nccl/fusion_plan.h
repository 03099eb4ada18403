// How a list of tensors goes through a buffer that may be smaller than the list: some of its elements at a
// time, as they lie one after another. All ranks must make the same of lists of the same sizes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/backends/backend.h"
#include "comm/backends/nccl/kernels/batch.h"

namespace trainrun::comm::nccl {

// As kernels have it; nothing for a type that they do not know.
std::optional<Element> element_of(trc_dtype dtype);

enum class Way { into_buffer, out_of_buffer };

// For the elements from `begin` to `end` of the list, which are what the buffer holds, of type `wire`.
std::vector<Piece> pieces_of(std::span<const Tensor> tensors, trc_dtype wire, void* buffer,
                             std::uint64_t begin, std::uint64_t end, Way way);

}  // namespace trainrun::comm::nccl
