// Ranks that have nothing more to do, and those that have.
#include <fmt/format.h>

#include <vector>

#include "tests/unit/comm/backends/ranks.h"

using namespace trainrun;
using namespace trainrun::comm;

namespace {

constexpr std::size_t elements = 300'000;  // large on every backend

// Rank r has r steps, of a small and a large operation and a barrier each. What ranks give in a step is its
// number; joined ones give nothing.
Outcome<void> steps(Group& group, int rank, std::string& wrong) {
  for (int step = 0; step < rank; ++step) {
    const double givers = group.size() - step - 1;
    for (const std::size_t count : {std::size_t{3}, elements}) {
      std::vector<double> data(count, step + 1);
      if (auto done = group.allreduce(data.data(), data.data(), count, TRC_F64, TRC_SUM); !done) return done;
      for (const auto value : {data.front(), data.back()})
        if (value != givers * (step + 1)) wrong = fmt::format("{} in step {} of rank {}", value, step, rank);
    }
    if (auto met = group.barrier(); !met) return met;
  }
  return group.join();
}

}  // namespace

TEST_CASE("ranks that have joined take part with zeros until all have, over every backend") {
  for (const std::string name : {"shm", "gloo", "hier"})
    for (const std::uint32_t size : {2U, 4U, 6U}) {
      if (name == "hier" && size == 2) continue;
      CAPTURE(name);
      CAPTURE(size);
      Ranks ranks(backends_named(name, size));
      std::vector<std::string> wrong(size);
      for (int round = 0; round < 2; ++round) {
        ranks.all_do([&](Group& group, int rank) {
          return steps(group, rank, wrong[static_cast<std::size_t>(rank)]);
        });
        for (const auto& text : wrong) CHECK(text == "");
      }
      // They are at the same operation after it.
      ranks.all_do([](Group& group, int) { return group.barrier(); });
      for (int rank = 1; rank < ranks.size(); ++rank)
        CHECK(ranks.at(rank).progress().sequence() == ranks.at(0).progress().sequence());
    }
}

TEST_CASE("what cannot go on without a rank that has joined is a mismatch on all") {
  for (const std::string name : {"shm", "gloo", "hier"}) {
    CAPTURE(name);
    Ranks ranks(backends_named(name, 4));
    const auto ends = ranks.all([](Group& group, int rank) {
      double value = 1;
      return rank == 2 ? group.join() : group.broadcast(&value, 1, TRC_F64, 0);
    });
    for (const auto& end : ends) {
      REQUIRE_FALSE(end);
      CHECK(end.error().status == TRC_MISMATCH);
      CHECK_MESSAGE(end.error().message.find("join") != std::string::npos, end.error().message);
    }
  }
}

TEST_CASE("ranks that call different things are told so although another one has joined") {
  Ranks ranks(shm_backends(3));
  const auto ends = ranks.all([](Group& group, int rank) {
    double values[2] = {1, 1};
    const auto count = static_cast<std::size_t>(rank + 1);
    return rank == 2 ? group.join() : group.allreduce(values, values, count, TRC_F64, TRC_SUM);
  });
  for (const auto& end : ends) {
    REQUIRE_FALSE(end);
    CHECK(end.error().status == TRC_MISMATCH);
  }
}

TEST_CASE("a rank alone joins at once") {
  Ranks alone(backends_named("", 1));
  CHECK(alone.at(0).join());
}
