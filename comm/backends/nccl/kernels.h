// The kernels of this library on one device: loaded into a context by its driver, and launched on streams.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "comm/backends/nccl/abi.h"
#include "comm/backends/nccl/cuda_driver.h"
#include "comm/backends/nccl/kernels/batch.h"

namespace trainrun::comm::nccl {

class Kernels {
 public:
  explicit Kernels(const CudaDriver& cuda) : cuda_(cuda) {}

  // Into the context of this thread. Where that cannot be, why_not() tells.
  void load();
  void unload();
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  // All of the pieces, in one launch for each `most_pieces` of them.
  Cuda convert(std::span<const Piece> pieces, float factor, Stream stream) const;

 private:
  const CudaDriver& cuda_;
  void* module_ = nullptr;
  void* convert_ = nullptr;
  std::string why_not_;
};

}  // namespace trainrun::comm::nccl
