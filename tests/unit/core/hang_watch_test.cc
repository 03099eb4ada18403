#include "launcher/core/hang_watch.h"

#include <doctest/doctest.h>

using namespace trainrun;
using core::HangWatch;

namespace {

constexpr Instant start = Instant{} + seconds(100);

wire::Inspected found(std::uint32_t worker, std::string state = "S", std::uint64_t cpu_ms = 0) {
  return {
      .worker = WorkerId{worker}, .state = std::move(state), .cpu_ms = cpu_ms, .waits_in = {}, .stack = {}};
}

}  // namespace

TEST_SUITE("hang watch") {
  TEST_CASE("silence counts from the last sign of life, and is told once a limit") {
    HangWatch watch(seconds(10));
    watch.alive(start);
    CHECK(watch.next_look() == start + seconds(10));
    CHECK_FALSE(watch.too_silent(start + milliseconds(9'999)));
    CHECK(watch.too_silent(start + seconds(12)) == seconds(12));
    CHECK(watch.next_look() == start + seconds(22));
    CHECK_FALSE(watch.too_silent(start + seconds(21)));
    CHECK(watch.too_silent(start + seconds(22)) == seconds(10));
    watch.alive(start + seconds(30));
    CHECK_FALSE(watch.too_silent(start + seconds(39)));
  }

  TEST_CASE("without a limit ranks may be silent for ever") {
    HangWatch watch(std::nullopt);
    watch.alive(start);
    CHECK_FALSE(watch.too_silent(start + std::chrono::hours(1000)));
    CHECK_FALSE(watch.next_look());
  }

  TEST_CASE("a sign of life ends the inspection, and its answers are not awaited any more") {
    HangWatch watch(seconds(10));
    CHECK_FALSE(watch.alive(start));
    const auto asked = watch.inspect();
    CHECK(watch.awaits(asked.sequence));
    CHECK_FALSE(watch.awaits(asked.sequence - 1));
    CHECK(watch.alive(start + seconds(1)));
    CHECK_FALSE(watch.awaits(asked.sequence));
    CHECK_FALSE(watch.alive(start + seconds(2)));
    CHECK(watch.inspect().sequence == asked.sequence + 1);
  }

  TEST_CASE("what is seen of a rank is one line with all that is known of it") {
    HangWatch watch(seconds(10));
    watch.inspect();
    CHECK(watch.seen(Rank{0}, found(1, "D"), start) ==
          "state D, 0 ms of CPU and 0 bytes of I/O in 500 ms, no output so far");
    watch.operated(WorkerId{2}, "allreduce\x1b[31m", 812, true);
    watch.printed(WorkerId{2}, start - seconds(7));
    auto seen = found(2, "R", 480);
    seen.waits_in = "futex_wait";
    CHECK(watch.seen(Rank{1}, seen, start) ==
          "state R, 480 ms of CPU and 0 bytes of I/O in 500 ms, waits in futex_wait, in "
          "'allreduce\\x1b[31m' number 812, last output 7.0 s ago");
    watch.operated(WorkerId{2}, "barrier", 813, false);
    CHECK(watch.seen(Rank{1}, found(2), start).find(", after 'barrier' number 813,") != std::string::npos);
  }

  TEST_CASE("of workers that are gone nothing is known any more, nor of the operations of another world") {
    HangWatch watch(seconds(10));
    watch.operated(WorkerId{1}, "barrier", 1, false);
    watch.operated(WorkerId{2}, "barrier", 1, false);
    watch.printed(WorkerId{1}, start);
    watch.printed(WorkerId{2}, start);
    watch.begin_world([](WorkerId worker) { return worker == WorkerId{2}; });
    watch.inspect();
    CHECK(watch.seen(Rank{0}, found(1), start + seconds(1)).ends_with("500 ms, no output so far"));
    CHECK(watch.seen(Rank{1}, found(2), start + seconds(1)).ends_with("500 ms, last output 1.0 s ago"));
  }

  TEST_CASE("ranks are compared once all were seen, in any order, and once") {
    HangWatch watch(seconds(10));
    watch.inspect();
    watch.seen(Rank{2}, found(3, "R", 500), start);
    watch.seen(Rank{0}, found(1, "R", 500), start);
    CHECK_FALSE(watch.compare(3));
    watch.seen(Rank{1}, found(2), start);
    const auto odd = watch.compare(3);
    REQUIRE(odd);
    CHECK(odd->rank == Rank{1});
    CHECK(odd->does == "sleeps");
    CHECK(odd->others_do == "is running");
    CHECK(odd->others == std::vector{Rank{0}, Rank{2}});
    CHECK_FALSE(watch.compare(3));
    SUBCASE("an earlier inspection's looks do not count") {
      watch.seen(Rank{1}, found(2), start);
      watch.inspect();
      watch.seen(Rank{0}, found(1, "R", 500), start);
      watch.seen(Rank{2}, found(3, "R", 500), start);
      CHECK_FALSE(watch.compare(3));
    }
    SUBCASE("half a sample of work is busy, a quarter is not") {
      watch.inspect();
      watch.seen(Rank{0}, found(1, "S", 126), start);
      watch.seen(Rank{1}, found(2, "S", 125), start);
      watch.seen(Rank{2}, found(3, "S", 126), start);
      CHECK(watch.compare(3)->rank == Rank{1});
    }
  }
}
