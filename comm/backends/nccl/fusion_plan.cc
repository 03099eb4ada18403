#include "comm/backends/nccl/fusion_plan.h"

#include <algorithm>

#include "comm/kernels.h"

namespace trainrun::comm::nccl {

std::optional<Element> element_of(trc_dtype dtype) {
  switch (dtype) {
    case TRC_F32:
      return Element::f32;
    case TRC_F16:
      return Element::f16;
    case TRC_BF16:
      return Element::bf16;
    default:
      return std::nullopt;
  }
}

std::uint64_t padded_count(std::span<const Tensor> tensors) {
  std::uint64_t sum = 0;
  for (const auto& tensor : tensors) sum += padded(tensor.count);
  return sum;
}

std::vector<Piece> pieces_of(std::span<const Tensor> tensors, trc_dtype wire, void* buffer,
                             std::uint64_t begin, std::uint64_t end, Way way) {
  std::vector<Piece> pieces;
  std::uint64_t first = 0;  // of the tensor's elements, in the list
  for (const auto& tensor : tensors) {
    const auto from = std::max(first, begin), to = std::min(first + tensor.count, end);
    if (from < to) {
      const auto skipped = (from - first) * size_of(tensor.dtype);
      auto* const there = static_cast<char*>(buffer) + (from - begin) * size_of(wire);
      const auto own = *element_of(tensor.dtype), other = *element_of(wire);
      if (way == Way::into_buffer)
        pieces.push_back({static_cast<const char*>(tensor.in) + skipped, there, to - from, own, other, 0});
      else
        pieces.push_back({there, static_cast<char*>(tensor.out) + skipped, to - from, other, own, 0});
    }
    first += padded(tensor.count);
  }
  return pieces;
}

}  // namespace trainrun::comm::nccl
