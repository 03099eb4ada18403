#include "comm/backends/nccl/kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/backends/nccl/kernels/image.h"

namespace trainrun::comm::nccl {
namespace {

constexpr unsigned threads = 256;

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
    batch.count = 0;
    std::uint32_t blocks = 0;
    for (auto piece : now) {
      piece.first_block = blocks;
      blocks += blocks_of(piece.count);
      batch.pieces[batch.count++] = piece;
    }
    if (blocks > 0) {
      const auto launched =
          cuda_.launch(convert_, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
      if (launched != Cuda::success) return launched;
    }
    pieces = pieces.subspan(now.size());
  }
  return Cuda::success;
}

}  // namespace trainrun::comm::nccl
