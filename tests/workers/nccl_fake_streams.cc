// Streams of a device that is none: they count operations of NCCL, which take their time, and keep the
// kernels that are to run after these.
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "nccl_fake.h"

namespace nccl_fake {
namespace {

struct Kernel {
  std::uint64_t after;  // so many operations
  std::function<void()> run;
};
struct Stream {
  std::uint64_t enqueued = 0, done = 0;
  std::deque<Kernel> kernels;
};

std::mutex mutex;
std::condition_variable changed;
std::map<void*, Stream> streams;

void run_what_can(Stream& stream) {
  for (; !stream.kernels.empty() && stream.kernels.front().after <= stream.done; stream.kernels.pop_front())
    stream.kernels.front().run();
}

}  // namespace

void enqueue_on(void* stream) {
  const std::lock_guard lock(mutex);
  ++streams[stream].enqueued;
}
void finish_on(void* stream, End end) {
  const std::lock_guard lock(mutex);
  ++streams[stream].done;
  if (end == End::aborted) streams[stream].kernels.clear();
  run_what_can(streams[stream]);
  changed.notify_all();
}
void launch_on(void* stream, std::function<void()> kernel) {
  const std::lock_guard lock(mutex);
  auto& its = streams[stream];
  its.kernels.push_back({its.enqueued, std::move(kernel)});
  run_what_can(its);
}
bool kernels_wait_on(void* stream) {
  const std::lock_guard lock(mutex);
  return !streams[stream].kernels.empty();
}
std::uint64_t enqueued_on(void* stream) {
  const std::lock_guard lock(mutex);
  return streams[stream].enqueued;
}
std::uint64_t done_on(void* stream) {
  const std::lock_guard lock(mutex);
  return streams[stream].done;
}
void wait_until_done(void* stream, std::uint64_t number) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return streams[stream].done >= number; });
}

}  // namespace nccl_fake
