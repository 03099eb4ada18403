// What a communicator's thread has and does.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "comm/backends/nccl/communicator.h"
#include "comm/backends/nccl/overdue.h"

namespace trainrun::comm::nccl {

using Problem = Machine::Problem;
using Do = Machine::Do;

// The longest time between two looks at what is under way.
constexpr Duration longest_pause = milliseconds(1);

struct Communicator::Core {
  // Of the one caller that there is at a time.
  struct Request {
    std::vector<Job> jobs;  // one after another, each once NCCL has taken in the one before
    std::size_t at = 0;     // the one that is next, or under way
    Stream stream = nullptr;
    bool await = false;     // until all on the stream is done
    void* until = nullptr;  // or this event has happened
    bool taken = false, done = false;
  };

  Core(const Library& nccl, const CudaDriver& driver, Place where)
      : call(nccl.call),
        cuda(driver),
        place(std::move(where)),
        fusion(driver, place.fusion_bytes),
        machine(place.open_until, place.abort_within),
        overdue(driver, place.op_within),
        tell_overdue(place.tell_overdue) {}

  const Functions call;
  const CudaDriver& cuda;
  const Place place;
  Fusion fusion;  // the thread's own, but for what it says of kernels once the communicator is open
  mutable std::mutex mutex;
  std::condition_variable changed;
  Machine machine;
  std::optional<Request> request;
  bool looking = false;  // the thread, at an event that may be the caller's
  bool gone = false;

  // The thread's own:
  Handle handle = nullptr;
  std::uint64_t scratch = 0;
  void* event = nullptr;
  int device = -1;
  bool retained = false;
  bool unwatched = false;  // something may run that nobody waits for
  Overdue overdue;
  bool told_overdue = false;
  Duration pause{};

  std::mutex telling;  // while tell_overdue runs, or is taken away
  std::function<void()> tell_overdue;

  void run();
  void turn(std::unique_lock<std::mutex>& lock);
  void take_device();
  void give_device_back();
  Answer ask(Do what, Answer& heard);
  std::string text_of(Do what, Answer answer) const;
  void watch_stream(std::unique_lock<std::mutex>& lock);
  void look_for_overdue(std::unique_lock<std::mutex>& lock);
  void rest(std::unique_lock<std::mutex>& lock);
  Moved submit(Request wish, Deadline deadline);
  void cuda_failed(const char* what, Cuda error, Problem::Kind kind);
};

}  // namespace trainrun::comm::nccl
