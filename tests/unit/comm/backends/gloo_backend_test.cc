#include "comm/backends/gloo/gloo_backend.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <future>

#include "tests/unit/comm/no_sigpipe.h"

using namespace trainrun::comm;
using std::chrono::seconds;

namespace {

Deadline in(seconds time) { return std::chrono::steady_clock::now() + time; }

// Two ranks of one process.
struct Pair {
  Pair() {
    for (int rank : {0, 1}) ranks.push_back(GlooBackend::listen(rank, 2, "127.0.0.1").value());
    auto other = std::async(std::launch::async,
                            [&] { return ranks[1]->connect({ranks[0]->blob()}, in(seconds(60))); });
    REQUIRE(ranks[0]->connect({ranks[1]->blob()}, in(seconds(60))));
    REQUIRE(other.get());
  }
  trainrun::NoSigpipe ignored;  // until they are gone
  std::vector<std::unique_ptr<GlooBackend>> ranks;
};

// Far above what an abort may take, far below the deadline of the operation.
constexpr auto time_limit = seconds(60);
constexpr auto never = seconds(3600);

}  // namespace

TEST_CASE("an abort ends an operation that waits for a silent rank, and all later ones") {
  Pair pair;
  auto waits =
      std::async(std::launch::async, [&] { return pair.ranks[0]->perform({}, {}, in(never)).has_value(); });
  pair.ranks[0]->abort();  // before it waits, or while it does
  REQUIRE(waits.wait_for(time_limit) == std::future_status::ready);
  CHECK_FALSE(waits.get());
  CHECK_FALSE(pair.ranks[0]->perform({}, {}, in(never)));
  double value = 1;
  Descriptor what;
  what.call = Call::allreduce;
  what.count = 1;
  what.dtype = TRC_F64;
  CHECK_FALSE(pair.ranks[0]->perform(what, {&value, &value, {}}, in(never)));
}

TEST_CASE("an abort ends an operation at whatever point its connection breaks") {
  // At which point of the operation the other rank's end is noticed is chance; so several times.
  for (int round = 0; round < 30; ++round) {
    Pair pair;
    auto waits = std::async(std::launch::async, [&] {
      while (pair.ranks[0]->perform({}, {}, in(never))) {
      }
    });
    auto other = std::async(std::launch::async, [&] {
      for (int i = 0; i < round; ++i) static_cast<void>(pair.ranks[1]->perform({}, {}, in(never)));
      pair.ranks[1].reset();
    });
    REQUIRE(other.wait_for(time_limit) == std::future_status::ready);
    pair.ranks[0]->abort();
    REQUIRE(waits.wait_for(time_limit) == std::future_status::ready);
  }
}

TEST_CASE(
    "that too few descriptors are left is said, where Gloo says that it finds no address or waits for ever") {
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(next >= 0);
  ::close(next);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  for (int left = 0; left < 5; ++left) {
    const rlimit few{static_cast<rlim_t>(next + left), before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    const auto listening = GlooBackend::listen(0, 2, "127.0.0.1");
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    REQUIRE_FALSE(listening);
    CHECK(listening.error().text ==
          fmt::format("no socket: Too many open files; {} more are needed than this process "
                      "may open; try: ulimit -n",
                      5 - left));
  }
}
