#include "comm/recorder.h"

#include <doctest/doctest.h>

#include <thread>

#include "tests/unit/comm/backends/ranks.h"

using namespace trainrun;
using namespace trainrun::comm;

namespace {

Descriptor sum_of(std::uint64_t sequence, std::uint64_t count) {
  Descriptor what;
  what.call = Call::allreduce;
  what.sequence = sequence;
  what.count = count;
  what.dtype = TRC_F64;
  return what;
}

}  // namespace

TEST_CASE("the last operations are known, the oldest first, and what runs has no end") {
  Recorder recorder;
  CHECK(recorder.read().empty());
  const auto now = std::chrono::steady_clock::now();
  for (std::uint64_t i = 1; i <= 100; ++i) {
    recorder.begin(sum_of(i, i), now);
    if (i < 100) recorder.end(i == 99 ? Recorder::State::failed : Recorder::State::done);
  }
  const auto known = recorder.read();
  REQUIRE(known.size() == Recorder::kept);
  for (std::size_t i = 0; i < known.size(); ++i) {
    CHECK(known[i].sequence == 100 - Recorder::kept + i + 1);
    CHECK(known[i].bytes == 8 * known[i].sequence);
    CHECK(known[i].call == Call::allreduce);
    CHECK(known[i].dtype == TRC_F64);
    CHECK(known[i].begun == now.time_since_epoch());
  }
  CHECK(known.back().state == Recorder::State::runs);
  CHECK(known.back().ended.count() == 0);
  CHECK(known[known.size() - 2].state == Recorder::State::failed);
  CHECK(known[known.size() - 2].ended >= known[known.size() - 2].begun);
}

TEST_CASE("who reads while operations begin and end sees whole ones, in their order") {
  Recorder recorder;
  std::atomic<bool> over = false;
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= 200'000; ++i) {
      recorder.begin(sum_of(i, 3 * i), std::chrono::steady_clock::time_point(std::chrono::nanoseconds(i)));
      recorder.end(Recorder::State::done);
    }
    over = true;
  });
  std::uint64_t newest = 0;
  while (!over || newest < 200'000) {
    std::uint64_t before = 0;
    for (const auto& one : recorder.read()) {
      if (one.sequence <= before || one.bytes != 24 * one.sequence ||
          one.begun.count() != static_cast<std::int64_t>(one.sequence))
        FAIL_CHECK("a torn operation: ", one.sequence, " of ", one.bytes, " bytes");
      before = one.sequence;
    }
    newest = std::max(newest, before);
  }
  writer.join();
  CHECK(newest == 200'000);
}

TEST_CASE("a group records what it does, also what fails") {
  Ranks ranks(shm_backends(2));
  ranks.all_do([](Group& group, int) {
    double value = 1;
    return group.allreduce(&value, &value, 1, TRC_F64, TRC_SUM);
  });
  static_cast<void>(ranks.all([](Group& group, int rank) {
    double values[2]{};
    return group.broadcast(values, rank == 0 ? 1 : 2, TRC_F64, 0);
  }));
  const auto known = ranks.at(1).recent();
  REQUIRE(known.size() == 2);
  CHECK(known[0].state == Recorder::State::done);
  CHECK(known[1].call == Call::broadcast);
  CHECK(known[1].bytes == 16);
  CHECK(known[1].state == Recorder::State::failed);
}
