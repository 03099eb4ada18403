// A group whose buffers are on a device: operations are enqueued on a stream by NCCL. A barrier or a settle
// alone waits until the device has done them. Ranks do not hear beforehand whether all call the same: that
// would cost what the device saves.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "comm/backends/backend.h"
#include "comm/backends/nccl/communicator.h"

namespace trainrun::comm::nccl {

class NcclBackend : public Backend {
 public:
  // `time_limit`: for one operation, where nobody else looks at the time.
  NcclBackend(const Library& library, const CudaDriver& cuda, Communicator::Place place, Stream stream,
              Duration time_limit);

  [[nodiscard]] const char* name() const override { return "nccl"; }
  [[nodiscard]] const char* refuses(const Descriptor& what) const override;
  [[nodiscard]] const char* refuses_lists() const override;
  [[nodiscard]] bool sends() const override { return true; }
  bool use_stream(void* stream) override;
  Performed perform(const Descriptor& what, const Transfer& data, Deadline deadline) override;
  void abort() override { communicator_.abort(); }

  Moved opened();
  // The first cause, once it is over.
  [[nodiscard]] std::optional<Machine::Problem> problem() const { return communicator_.problem(); }

 private:
  Moved reduce(const Descriptor& what, std::vector<Tensor> tensors, Deadline until);

  int rank_, size_;
  Duration time_limit_;
  std::atomic<Stream> stream_;
  Communicator communicator_;
  std::string why_no_kernels_;  // once it is open
};

}  // namespace trainrun::comm::nccl
