// How a list of tensors goes through a buffer that may be smaller than the list: some of its elements at a
// time, as they lie one after another, each padded. All ranks must make the same of lists of the same sizes.
// Pure.
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

// Each tensor begins where it is aligned, so that kernels can take several elements at once; what lies
// between two is reduced with them, and nobody reads it.
constexpr std::uint64_t padded(std::uint64_t count) { return (count + together - 1) / together * together; }
std::uint64_t padded_count(std::span<const Tensor> tensors);

enum class Way { into_buffer, out_of_buffer };

// For the elements from `begin` to `end` of the padded list, which are what the buffer holds, of type `wire`.
std::vector<Piece> pieces_of(std::span<const Tensor> tensors, trc_dtype wire, void* buffer,
                             std::uint64_t begin, std::uint64_t end, Way way);

}  // namespace trainrun::comm::nccl
