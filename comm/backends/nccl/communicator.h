// A communicator and the thread that owns it: no other calls NCCL for it, since NCCL may be aborted only when
// nobody is inside it. NCCL answers at once; whoever calls here waits for the thread, or for an abort, so
// that a call of NCCL that hangs holds up that thread alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/backends/backend.h"
#include "comm/backends/nccl/cuda_driver.h"
#include "comm/backends/nccl/fusion.h"
#include "comm/backends/nccl/library.h"
#include "comm/backends/nccl/machine.h"

namespace trainrun::comm::nccl {

class Communicator {
 public:
  struct Place {
    int rank = 0, size = 1;
    int device = 0;  // its number among those that this process can use
    std::vector<UniqueId> ids{};
    Instant open_until{};
    Duration abort_within{};
    Duration op_within = Duration::max();  // for what was enqueued to be done, also where nobody waits for it
    // Tells who can end it; called once. Without it the communicator fails by itself, which lets the device
    // go on with what is half done.
    std::function<void()> tell_overdue{};
    std::size_t fusion_bytes = std::size_t{64} << 20;
  };
  // NCCL's answer to what was enqueued.
  using Job = std::function<Answer(const Functions&, Handle)>;

  Communicator(const Library& library, const CudaDriver& cuda, Place place);
  // Closes it, or aborts what cannot be closed; waits for that at most a second. See settle().
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Moved opened();  // once all ranks are there
  // NCCL has taken it in; it may run when this returns.
  Moved enqueue(Job job, Stream stream, Deadline deadline);
  // The same of all elements of the list. Once opened, and where nothing says why there are no kernels.
  Moved enqueue(const std::shared_ptr<const FusedList>& list, Deadline deadline);
  [[nodiscard]] std::string why_no_kernels() const;
  // All that is enqueued on the stream is done, on all ranks.
  Moved meet(Stream stream, Deadline deadline);
  // The event has happened, and what was enqueued before it was not cut short.
  Moved wait(void* event, Deadline deadline);
  // From any thread.
  void abort();
  [[nodiscard]] std::optional<Machine::Problem> problem() const;

 private:
  friend std::optional<std::string> settle();
  struct Core;
  std::shared_ptr<Core> core_;
  std::thread thread_;
};

// Waits for communicators that this process has given up. What is wrong when NCCL does not let go of one in
// its time: then only a new process can use the device.
std::optional<std::string> settle();

}  // namespace trainrun::comm::nccl
