#include "comm/backends/nccl/overdue.h"

namespace trainrun::comm::nccl {
namespace {

constexpr Duration longest_gap = seconds(1);  // between looks of a process that runs
constexpr Duration for_ever = std::chrono::hours(24 * 365);

}  // namespace

// A CUDA that fails is told by whoever needs it.
void Overdue::record(Mark& mark, Stream stream) {
  mark.set = (mark.event != nullptr || cuda_.event_create(&mark.event, without_timing) == Cuda::success) &&
             cuda_.event_record(mark.event, stream) == Cuda::success;
}

void Overdue::enqueued(Stream stream, Instant now) {
  if (within_ >= for_ever) return;
  if (first_.set) return record(newest_, stream);
  record(first_, stream);
  ends_ = now + within_;
  looked_ = now;
}

bool Overdue::look(Instant now) {
  if (!first_.set) return false;
  if (now - looked_ > longest_gap) ends_ += now - looked_;
  looked_ = now;
  if (cuda_.event_query(first_.event) == Cuda::not_ready) return now > ends_;
  std::swap(first_, newest_);
  newest_.set = false;
  ends_ = now + within_;
  return false;
}

void Overdue::release() {
  for (const auto& mark : {first_, newest_})
    if (mark.event != nullptr) cuda_.event_destroy(mark.event);
}

}  // namespace trainrun::comm::nccl
