#include "comm/backends/nccl/fusion.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/backends/nccl/fusion_plan.h"
#include "comm/kernels.h"

namespace trainrun::comm::nccl {

using Kind = Machine::Problem::Kind;

bool Fusion::good(const char* what, Cuda answer, Kind kind) {
  if (answer != Cuda::success) problem_ = {kind, fmt::format("{}: {}", what, cuda_.name(answer))};
  return answer == Cuda::success;
}

std::uint64_t Fusion::room(const FusedList& list) const {
  return bytes_ / size_of(list.wire) / together * together;
}

std::uint64_t Fusion::steps(const FusedList& list) const {
  return (list.count + room(list) - 1) / room(list) + 1;  // after the last something is to be taken out
}

// Allocated whole, once: growing it would free the smaller one, for which CUDA waits until the device is
// idle, and that may take another rank.
bool Fusion::take_buffer(Stream stream) {
  if (buffer_ != 0)  // another stream may use it still
    return good("cuStreamWaitEvent", cuda_.stream_wait_event(stream, idle_, 0), Kind::context);
  const auto what =
      fmt::format("cuMemAlloc of {} bytes for lists of tensors (TRAINRUN_FUSION_BYTES)", bytes_);
  return good(what.c_str(), cuda_.allocate(&buffer_, bytes_), Kind::library) &&
         good("cuEventCreate", cuda_.event_create(&idle_, without_timing), Kind::context);
}

Answer Fusion::step(const FusedList& list, std::uint64_t number, const Functions& call, Handle handle) {
  if (number == 0 && !take_buffer(list.stream)) return Answer::cuda_error;
  auto* const buffer = reinterpret_cast<void*>(buffer_);
  const auto begin = number * room(list);
  if (number > 0) {
    const auto out =
        pieces_of(list.tensors, list.wire, buffer, begin - room(list), begin, Way::out_of_buffer);
    if (!good("cuLaunchKernel", kernels_.convert(out, list.after, list.stream), Kind::context))
      return Answer::cuda_error;
  }
  if (begin >= list.count) {
    good("cuEventRecord", cuda_.event_record(idle_, list.stream), Kind::context);
    return Answer::success;
  }
  const auto end = std::min(begin + room(list), list.count);
  const auto in = pieces_of(list.tensors, list.wire, buffer, begin, end, Way::into_buffer);
  if (!good("cuLaunchKernel", kernels_.convert(in, list.before, list.stream), Kind::context))
    return Answer::cuda_error;
  return call.all_reduce(buffer, buffer, end - begin, list.type, list.reduce, handle, list.stream);
}

void Fusion::release() {
  if (idle_ != nullptr) cuda_.event_destroy(idle_);
  if (buffer_ != 0) cuda_.release(buffer_);
  kernels_.unload();
}

}  // namespace trainrun::comm::nccl
