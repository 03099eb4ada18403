// Whether the device takes too long for what was enqueued, for a program that itself waits for the device and
// not for its ranks. Of the communicator's thread alone.
#pragma once

#include <utility>

#include "comm/backends/nccl/abi.h"
#include "comm/backends/nccl/cuda_driver.h"
#include "launcher/base/time.h"

namespace trainrun::comm::nccl {

class Overdue {
 public:
  // `within`: the time that what was enqueued has; a year or more: any.
  Overdue(const CudaDriver& cuda, Duration within) : cuda_(cuda), within_(within) {}

  // Something was, on this stream, which is used no more after this.
  void enqueued(Stream stream, Instant now);
  // It is called every now and then; a process that stood still meanwhile has that time in addition.
  [[nodiscard]] bool look(Instant now);
  void release();

 private:
  struct Mark {
    void* event = nullptr;
    bool set = false;
  };
  void record(Mark& mark, Stream stream);

  const CudaDriver& cuda_;
  const Duration within_;
  Mark first_;   // what is waited for
  Mark newest_;  // behind all that was enqueued since
  Instant ends_{}, looked_{};
};

}  // namespace trainrun::comm::nccl
