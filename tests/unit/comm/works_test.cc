// Operations that are started, and run on threads of the library.
#include <poll.h>

#include <future>
#include <stdexcept>

#include "comm/lanes.h"
#include "tests/unit/comm/job.h"

using namespace trainrun;
using namespace trainrun::comm;

namespace {

std::shared_ptr<Work> work_of(Work::Run run) { return std::make_shared<Work>(std::move(run), nullptr, 0); }

}  // namespace

TEST_CASE("every operation that is started gives the expected values on 1 to 4 ranks") {
  for (const std::string backend : {"shm", "gloo"})
    for (std::uint32_t size = 1; size <= 4; ++size) {
      CAPTURE(backend);
      Job job(size, backend, "works");
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        CHECK(job.all(rank) == fmt::format("ok {} {}\n", rank, size));
        CHECK(job.exit_code(rank) == 0);
      }
    }
}

TEST_CASE("a death inside a work is told by it and by all that follow, with the rank") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job killed(3, backend, "works_loop");
    for (std::uint32_t rank = 0; rank < 3; ++rank) killed.printed(rank, "running");
    killed.signal(2, SIGKILL);
    // And at points inside the operation.
    for (const std::string point : {"comm.come", "comm.wait", "comm.past"}) {
      CAPTURE(point);
      Job job(3, backend, "works_loop", {}, "60", point + "=kill:9");
      for (const std::uint32_t rank : {0, 1}) {
        const auto said = job.all(rank);
        CHECK_MESSAGE(said.find("failed PeerLost culprit 2 host " + host_of(2, backend)) != std::string::npos,
                      said);
        CHECK(said.find("outlived") == std::string::npos);
        CHECK(said.find("another") == std::string::npos);
      }
    }
    for (const std::uint32_t rank : {0, 1}) {
      const auto said = killed.all(rank);
      CHECK_MESSAGE(said.find("failed PeerLost culprit 2 host " + host_of(2, backend)) != std::string::npos,
                    said);
      CHECK(killed.exit_code(rank) == 3);
    }
  }
}

TEST_CASE("the end of a world fails where a work has that nobody waited for") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(3, backend, "works_unwaited");
    for (const std::uint32_t rank : {0, 1})
      CHECK(job.all(rank).find("shutdown PeerLost culprit 2\n") != std::string::npos);
  }
}

TEST_CASE("a forked child has no part in works") {
  Job job(2, "shm", "works_fork");
  for (const std::uint32_t rank : {0, 1}) {
    CHECK(job.all(rank) == "ok\n");
    CHECK(job.exit_code(rank) == 0);
  }
}

TEST_CASE("a world ends in time while a work runs, and what waits is refused") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(2, backend, "works_free");
    CHECK(job.printed(0, "freed") == "freed\n");
    job.release();
    CHECK(job.exit_code(0) == 0);
  }
}

TEST_CASE("a lane runs works in order, and refuses them once it is closed") {
  Lane lane;
  std::string order;
  for (const char letter : {'a', 'b', 'c'})
    lane.add(work_of([&order, letter]() -> Outcome<void> {
      order += letter;
      return {};
    }));
  lane.drain();
  CHECK(order == "abc");
  lane.close();
  CHECK(lane.settle(std::chrono::steady_clock::now() + patient));
  const auto late = work_of([]() -> Outcome<void> { return {}; });
  lane.add(late);
  REQUIRE(late->ended());
  CHECK(late->wait({})->error().status == TRC_ABORTED);
}

TEST_CASE("a lane is idle when nothing waits or runs in it") {
  Lane lane;
  CHECK(lane.idle());
  std::promise<void> begun, go_on;
  lane.add(work_of([&]() -> Outcome<void> {
    begun.set_value();
    go_on.get_future().wait();
    return {};
  }));
  begun.get_future().wait();
  CHECK_FALSE(lane.idle());
  go_on.set_value();
  lane.drain();
  CHECK(lane.idle());
}

TEST_CASE("the descriptor of ends is readable until all have been told") {
  const auto ends = Completions::make().value();
  const auto readable = [&ends] {
    pollfd one{ends->descriptor(), POLLIN, 0};
    return ::poll(&one, 1, 0) == 1;
  };
  CHECK_FALSE(readable());
  ends->add(7);
  ends->add(8);
  CHECK(ends->next() == 7);
  CHECK(readable());
  CHECK(ends->next() == 8);
  CHECK_FALSE(readable());
  CHECK_FALSE(ends->next());
}

TEST_CASE("a work that throws has failed, and a wait for one that goes on has an end") {
  Lane lane;
  std::promise<void> begun, go;
  const auto waits = work_of([&]() -> Outcome<void> {
    begun.set_value();
    go.get_future().wait();
    return {};
  });
  const auto throws = work_of([]() -> Outcome<void> { throw std::runtime_error("no memory"); });
  lane.add(waits);
  lane.add(throws);
  begun.get_future().wait();
  CHECK_FALSE(waits->wait(milliseconds(5)));
  CHECK_FALSE(throws->ended());
  lane.close();
  CHECK_FALSE(lane.settle(std::chrono::steady_clock::now() + milliseconds(5)));
  CHECK(throws->wait({})->error().status == TRC_ABORTED);
  go.set_value();
  CHECK(waits->wait({})->has_value());
  Lane other;
  const auto again = work_of([]() -> Outcome<void> { throw std::runtime_error("no memory"); });
  other.add(again);
  const auto outcome = again->wait(patient);
  REQUIRE(outcome);
  CHECK(outcome->error().message == "no memory");
}
