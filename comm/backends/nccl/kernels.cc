#include "comm/backends/nccl/kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/backends/nccl/kernels/image.h"

namespace trainrun::comm::nccl {
namespace {

constexpr unsigned threads = 256;
// A block takes about this many elements of its piece; beyond the second number of blocks each takes more.
constexpr std::uint64_t elements_of_block = 8 * threads;
constexpr std::uint64_t most_columns = 1024;

}  // namespace

void Kernels::load() {
  const char* what = "cuModuleLoadData";
  auto answer = cuda_.module_load(&module_, kernels_image().data());
  if (answer == Cuda::success) {
    what = "cuModuleGetFunction";
    answer = cuda_.module_function(&convert_, module_, "trainrun_convert");
  }
  if (answer == Cuda::success) return;
  why_not_ = kernels_architectures().empty()
                 ? built_without_kernels
                 : fmt::format(
                       "CUDA cannot load the kernels, which are for architectures {}: {}: {}; try: a "
                       "newer driver, or build the library with the nvcc of the driver's version",
                       kernels_architectures(), what, cuda_.name(answer));
}

void Kernels::unload() {
  if (module_ != nullptr) cuda_.module_unload(module_);
}

Cuda Kernels::convert(std::span<const Piece> pieces, float factor, Stream stream) const {
  Batch batch;
  batch.factor = factor;
  void* parameters[] = {&batch};
  while (!pieces.empty()) {
    const auto now = pieces.first(std::min<std::size_t>(pieces.size(), most_pieces));
    std::copy(now.begin(), now.end(), batch.pieces);
    std::uint64_t longest = 1;
    for (const auto& piece : now) longest = std::max(longest, piece.count);
    const auto columns = std::min((longest + elements_of_block - 1) / elements_of_block, most_columns);
    const auto launched =
        cuda_.launch(convert_, static_cast<unsigned>(columns), static_cast<unsigned>(now.size()), 1, threads,
                     1, 1, 0, stream, parameters, nullptr);
    if (launched != Cuda::success) return launched;
    pieces = pieces.subspan(now.size());
  }
  return Cuda::success;
}

}  // namespace trainrun::comm::nccl
