// Reductions of lists of tensors through a buffer of the communicator's on the device. All on its thread,
// with the device's context.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/backends/backend.h"
#include "comm/backends/nccl/abi.h"
#include "comm/backends/nccl/kernels.h"
#include "comm/backends/nccl/machine.h"

namespace trainrun::comm::nccl {

// A list, with all that its reduction needs, since that may run when its caller has given up.
struct FusedList {
  std::vector<Tensor> tensors;
  std::uint64_t count;  // of elements of all, padded
  trc_dtype wire;
  Type type;  // the same, for NCCL
  Reduce reduce;
  float before, after;
  Stream stream;
};

class Fusion {
 public:
  // `bytes`: of the buffer.
  Fusion(const CudaDriver& cuda, std::size_t bytes) : cuda_(cuda), bytes_(bytes), kernels_(cuda) {}

  // Once, while nothing of this communicator runs: CUDA may wait for the device to load code.
  void load_kernels() { kernels_.load(); }
  [[nodiscard]] const std::string& why_no_kernels() const { return kernels_.why_not(); }

  // A reduction has so many steps, which are enqueued one after another, each once NCCL has taken in the one
  // before: it may put its work on the stream only then.
  [[nodiscard]] std::uint64_t steps(const FusedList& list) const;
  // Takes out of the buffer what the step before has reduced, and reduces what comes next. NCCL's answer;
  // that is of no interest when there is a problem().
  Answer step(const FusedList& list, std::uint64_t number, const Functions& call, Handle handle);
  // CUDA failed.
  [[nodiscard]] const std::optional<Machine::Problem>& problem() const { return problem_; }
  void release();

 private:
  bool good(const char* what, Cuda answer, Machine::Problem::Kind kind);
  bool take_buffer(Stream stream);
  [[nodiscard]] std::uint64_t room(const FusedList& list) const;

  const CudaDriver& cuda_;
  const std::size_t bytes_;
  std::uint64_t buffer_ = 0;
  void* idle_ = nullptr;  // an event: what was enqueued last has done with the buffer
  Kernels kernels_;
  std::optional<Machine::Problem> problem_;
};

}  // namespace trainrun::comm::nccl
