// The thread that owns a communicator, over a library that only looks like NCCL: this shows nothing about
// NCCL.
#include "comm/backends/nccl/communicator.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <stdlib.h>

#include <future>

#include "comm/backends/nccl/nccl_backend.h"

using namespace trainrun;
using namespace trainrun::comm;
using namespace trainrun::comm::nccl;

namespace {

constexpr Duration patient = seconds(60);

// Faults of this process for as long as it lives.
struct Faults {
  explicit Faults(const char* list) { ::setenv("NCCL_FAKE", list, 1); }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
  ~Faults() { ::unsetenv("NCCL_FAKE"); }
};

// The one that was set first is kept by the process.
struct Fake {
  const Library* nccl;
  const CudaDriver* cuda;
};
Fake fake() {
  ::setenv("TRAINRUN_NCCL_LIB", TRAINRUN_NCCL_FAKE, 1);
  ::setenv("TRAINRUN_CUDA_LIB", TRAINRUN_NCCL_FAKE, 1);
  const auto nccl = library();
  REQUIRE_MESSAGE(nccl, (nccl ? "" : nccl.error()));
  const auto cuda = cuda_driver();
  REQUIRE_MESSAGE(cuda, (cuda ? "" : cuda.error()));
  return {*nccl, *cuda};
}

UniqueId new_id(const Fake& with) {
  UniqueId id;
  REQUIRE(with.nccl->call.get_unique_id(&id) == Answer::success);
  return id;
}

Communicator::Place place(const UniqueId& id, int rank, int size, Duration open_within = patient,
                          Duration abort_within = patient) {
  return {rank, size, 0, {id}, std::chrono::steady_clock::now() + open_within, abort_within};
}

Descriptor sum_of(std::uint64_t count) {
  Descriptor what;
  what.call = Call::allreduce;
  what.count = count;
  what.dtype = TRC_I32;
  return what;
}

Deadline soon() { return std::chrono::steady_clock::now() + patient; }

}  // namespace

TEST_CASE("fake_nccl: the library is found, and says why it is this one") {
  const auto with = fake();
  CHECK(with.nccl->version == 22809);
  CHECK(with.nccl->origin == "TRAINRUN_NCCL_LIB");
  CHECK(with.nccl->path == TRAINRUN_NCCL_FAKE);
  const auto devices = device_names(*with.cuda);
  REQUIRE(devices);
  CHECK(devices->size() == 2);
}

TEST_CASE("fake_nccl: two ranks reduce on a stream, and a barrier waits for it") {
  const auto with = fake();
  const auto id = new_id(with);
  const auto rank = [&](int number) {
    int stream = number;
    NcclBackend backend(*with.nccl, *with.cuda, place(id, number, 2), &stream, patient);
    REQUIRE(backend.opened());
    for (int step = 0; step < 50; ++step) {
      const std::int32_t mine = number + step;
      std::int32_t sum = 0;
      REQUIRE(backend.perform(sum_of(1), {&mine, &sum, {}}, soon()));
      REQUIRE(backend.perform({}, {}, soon()));
      CHECK(sum == 1 + 2 * step);
    }
  };
  auto other = std::async(std::launch::async, rank, 1);
  rank(0);
  other.get();
  CHECK_FALSE(settle());
}

TEST_CASE("fake_nccl: an init that fails is NCCL's own words, and leaves nothing") {
  const Faults faults("*:init=fail");
  const auto with = fake();
  NcclBackend backend(*with.nccl, *with.cuda, place(new_id(with), 0, 1), nullptr, patient);
  const auto opened = backend.opened();
  REQUIRE_FALSE(opened);
  CHECK(opened.error().text ==
        "ncclCommInitRankConfig: unhandled cuda error (1): said libnccl_fake, which is no NCCL");
  CHECK(backend.problem()->kind == Machine::Problem::Kind::library);
  CHECK_FALSE(settle());
}

TEST_CASE("fake_nccl: a device that is not there") {
  const auto with = fake();
  auto where = place(new_id(with), 0, 1);
  where.device = 7;
  Communicator communicator(*with.nccl, *with.cuda, where);
  const auto opened = communicator.opened();
  REQUIRE_FALSE(opened);
  CHECK(opened.error().text == "cuDeviceGet of device 7: CUDA_ERROR_INVALID_DEVICE (101)");
}

TEST_CASE("fake_nccl: an init that hangs ends at its time, and by an abort at once") {
  const Faults faults("*:init=hang");
  const auto with = fake();
  {
    Communicator communicator(*with.nccl, *with.cuda, place(new_id(with), 0, 2, milliseconds(30)));
    CHECK_FALSE(communicator.opened());
    CHECK(communicator.problem()->kind == Machine::Problem::Kind::late);
  }
  Communicator communicator(*with.nccl, *with.cuda, place(new_id(with), 0, 2));
  auto opened = std::async(std::launch::async, [&] { return communicator.opened().has_value(); });
  communicator.abort();
  CHECK_FALSE(opened.get());
  CHECK(communicator.problem()->kind == Machine::Problem::Kind::asked);
  CHECK_FALSE(settle());
}

TEST_CASE("fake_nccl: a slow init is waited for") {
  const Faults faults("*:init=slow:50");
  const auto with = fake();
  Communicator communicator(*with.nccl, *with.cuda, place(new_id(with), 0, 1));
  CHECK(communicator.opened());
}

TEST_CASE("fake_nccl: an operation that is refused, and one that fails later") {
  struct Case {
    const char* faults;
    Machine::Problem::Kind kind;
  };
  for (const auto& [faults, kind] : {Case{"*:op=error:1", Machine::Problem::Kind::peers},
                                     Case{"*:cuda=broken", Machine::Problem::Kind::context}}) {
    const Faults some(faults);
    const auto with = fake();
    NcclBackend backend(*with.nccl, *with.cuda, place(new_id(with), 0, 1), nullptr, patient);
    REQUIRE(backend.opened());
    CHECK_FALSE(backend.perform({}, {}, soon()));
    CHECK_FALSE(backend.perform({}, {}, soon()));
    CHECK(backend.problem()->kind == kind);
  }
}

TEST_CASE("fake_nccl: what nobody waits for and fails is known all the same") {
  const Faults faults("*:op=error:1");
  const auto with = fake();
  NcclBackend backend(*with.nccl, *with.cuda, place(new_id(with), 0, 1), nullptr, patient);
  REQUIRE(backend.opened());
  const std::int32_t one = 1;
  std::int32_t sum = 0;
  static_cast<void>(backend.perform(sum_of(1), {&one, &sum, {}}, soon()));  // it may have failed by then
  const auto until = soon();
  while (!backend.problem() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  CHECK(backend.problem()->kind == Machine::Problem::Kind::peers);
}

TEST_CASE("fake_nccl: what the device never does ends by an abort, or at its time") {
  const Faults faults("*:op=stall:1");
  const auto with = fake();
  {
    NcclBackend backend(*with.nccl, *with.cuda, place(new_id(with), 0, 1), nullptr, milliseconds(30));
    REQUIRE(backend.opened());
    CHECK_FALSE(backend.perform({}, {}, soon()));
  }
  NcclBackend backend(*with.nccl, *with.cuda, place(new_id(with), 0, 1), nullptr, patient);
  REQUIRE(backend.opened());
  auto met = std::async(std::launch::async, [&] { return backend.perform({}, {}, soon()).has_value(); });
  backend.abort();
  CHECK_FALSE(met.get());
  CHECK_FALSE(settle());
}

TEST_CASE("fake_nccl: an event that this rank waits for, without the others") {
  const auto with = fake();
  NcclBackend backend(*with.nccl, *with.cuda, place(new_id(with), 0, 1), nullptr, patient);
  REQUIRE(backend.opened());
  const std::int32_t one = 1;
  std::int32_t sum = 0;
  void* event = nullptr;
  REQUIRE(with.cuda->event_create(&event, 0) == Cuda::success);
  Descriptor settle_it;
  settle_it.call = Call::settle;
  Transfer until;
  until.event = event;
  for (int step = 0; step < 50; ++step) {
    sum = 0;
    REQUIRE(backend.perform(sum_of(1), {&one, &sum, {}}, soon()));
    REQUIRE(with.cuda->event_record(event, nullptr) == Cuda::success);
    REQUIRE(backend.perform(settle_it, until, soon()));
    CHECK(sum == 1);
    CHECK(backend.perform(settle_it, until, soon()));  // it has happened
  }
  // What has been cut short is no success, though its event has happened.
  backend.abort();
  CHECK_FALSE(backend.perform(settle_it, until, soon()));
  with.cuda->event_destroy(event);
}

TEST_CASE("fake_nccl: an event that does not happen ends by an abort") {
  const Faults faults("*:op=stall:1");
  const auto with = fake();
  NcclBackend backend(*with.nccl, *with.cuda, place(new_id(with), 0, 1), nullptr, patient);
  REQUIRE(backend.opened());
  const std::int32_t one = 1;
  std::int32_t sum = 0;
  REQUIRE(backend.perform(sum_of(1), {&one, &sum, {}}, soon()));
  void* event = nullptr;
  REQUIRE(with.cuda->event_create(&event, 0) == Cuda::success);
  REQUIRE(with.cuda->event_record(event, nullptr) == Cuda::success);
  Descriptor settle_it;
  settle_it.call = Call::settle;
  Transfer until;
  until.event = event;
  auto settled =
      std::async(std::launch::async, [&] { return backend.perform(settle_it, until, soon()).has_value(); });
  backend.abort();
  CHECK_FALSE(settled.get());
  with.cuda->event_destroy(event);
}

TEST_CASE("fake_nccl: what nobody waits for, and the device does not do, ends at its time") {
  const Faults faults("*:op=stall:1");
  const auto with = fake();
  auto where = place(new_id(with), 0, 1);
  where.op_within = milliseconds(50);
  NcclBackend backend(*with.nccl, *with.cuda, where, nullptr, patient);
  REQUIRE(backend.opened());
  const std::int32_t one = 1;
  std::int32_t sum = 0;
  REQUIRE(backend.perform(sum_of(1), {&one, &sum, {}}, soon()));
  const auto until = soon();
  while (!backend.problem() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  REQUIRE(backend.problem());
  CHECK(backend.problem()->kind == Machine::Problem::Kind::late);
  CHECK(backend.problem()->text == "the device has not done it in its time");
  CHECK_FALSE(settle());
}

TEST_CASE("fake_nccl: an abort that takes its time is waited for, by who comes next") {
  const Faults faults("*:abort=slow:1500");
  const auto with = fake();
  {
    Communicator communicator(*with.nccl, *with.cuda, place(new_id(with), 0, 1));
    REQUIRE(communicator.opened());
    communicator.abort();
  }
  CHECK_FALSE(settle());
}

// The last: the process is not the same after it.
TEST_CASE("fake_nccl: an abort that hangs costs nobody more than its time, and the process its device") {
  const auto with = fake();
  {
    const Faults faults("*:abort=hang");
    Communicator communicator(*with.nccl, *with.cuda, place(new_id(with), 0, 1, patient, milliseconds(100)));
    REQUIRE(communicator.opened());
    communicator.abort();
  }
  const Faults still("*:abort=hang");
  const auto stuck = settle();
  REQUIRE(stuck);
  CHECK(*stuck ==
        "NCCL has not let go of a communicator in its time: the device can be used again by a new process "
        "alone");
}
