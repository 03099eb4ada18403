// How long a device has for what was enqueued, over a driver that only notes events.
#include "comm/backends/nccl/overdue.h"

#include <doctest/doctest.h>

using namespace trainrun;
using namespace trainrun::comm::nccl;

namespace {

struct Event {
  bool happened = false;
};
Event events[2];
int made = 0, recorded = 0;

CudaDriver driver() {
  CudaDriver cuda{};
  made = recorded = 0;
  cuda.event_create = [](void** event, unsigned) {
    *event = &events[made++];
    return Cuda::success;
  };
  cuda.event_record = [](void* event, void*) {
    ++recorded;
    static_cast<Event*>(event)->happened = false;
    return Cuda::success;
  };
  cuda.event_query = [](void* event) {
    return static_cast<Event*>(event)->happened ? Cuda::success : Cuda::not_ready;
  };
  cuda.event_destroy = [](void*) { return Cuda::success; };
  return cuda;
}

Instant at(int ms) { return Instant() + milliseconds(ms); }

}  // namespace

TEST_CASE("nccl_overdue: what is enqueued behind the first has its own time, from the first one's end on") {
  const auto cuda = driver();
  Overdue overdue(cuda, milliseconds(1000));
  CHECK_FALSE(overdue.look(at(5000)));  // nothing was
  overdue.enqueued(nullptr, at(5000));
  overdue.enqueued(nullptr, at(5500));
  overdue.enqueued(nullptr, at(5600));
  CHECK((made == 2 && recorded == 3));
  CHECK_FALSE(overdue.look(at(5900)));
  events[0].happened = true;
  CHECK_FALSE(overdue.look(at(5950)));
  CHECK(recorded == 3);  // no stream is touched after the call
  CHECK_FALSE(overdue.look(at(6900)));
  CHECK(overdue.look(at(6960)));
  overdue.enqueued(nullptr, at(6961));
  events[1].happened = true;
  CHECK_FALSE(overdue.look(at(6970)));
  events[0].happened = true;
  CHECK_FALSE(overdue.look(at(7000)));
  CHECK_FALSE(overdue.look(at(90000)));
  CHECK((made == 2 && recorded == 4));
  overdue.release();
}

TEST_CASE("nccl_overdue: a process that stood still gets that time back") {
  const auto cuda = driver();
  Overdue overdue(cuda, milliseconds(3000));
  overdue.enqueued(nullptr, at(0));
  CHECK_FALSE(overdue.look(at(500)));
  CHECK_FALSE(overdue.look(at(10500)));  // it was stopped for ten seconds
  CHECK_FALSE(overdue.look(at(11400)));
  CHECK_FALSE(overdue.look(at(12300)));
  CHECK(overdue.look(at(13100)));
  overdue.release();
}

TEST_CASE("nccl_overdue: without a limit no event is made") {
  const auto cuda = driver();
  Overdue overdue(cuda, Duration::max());
  overdue.enqueued(nullptr, at(0));
  CHECK_FALSE(overdue.look(at(1 << 30)));
  CHECK(recorded == 0);
}
