#include "comm/backends/nccl/overdue.h"

namespace trainrun::comm::nccl {
namespace {

constexpr Duration longest_gap = seconds(1);  // between looks of a process that runs
constexpr Duration for_ever = std::chrono::hours(24 * 365);

}  // namespace

// A CUDA that fails is told by whoever needs it.
void Overdue::mark(Instant now) {
  more_ = false;
  if (event_ == nullptr && cuda_.event_create(&event_, without_timing) != Cuda::success) return;
  waits_ = cuda_.event_record(event_, stream_) == Cuda::success;
  ends_ = now + within_;
  looked_ = now;
}

void Overdue::enqueued(Stream stream, Instant now) {
  if (within_ >= for_ever) return;
  stream_ = stream;
  if (waits_)
    more_ = true;
  else
    mark(now);
}

bool Overdue::look(Instant now) {
  if (!waits_) return false;
  if (now - looked_ > longest_gap) ends_ += now - looked_;
  looked_ = now;
  if (cuda_.event_query(event_) == Cuda::not_ready) return now > ends_;
  waits_ = false;
  if (more_) mark(now);
  return false;
}

void Overdue::release() {
  if (event_ != nullptr) cuda_.event_destroy(event_);
}

}  // namespace trainrun::comm::nccl
