#include "launcher/core/restart_policy.h"

#include <doctest/doctest.h>

using namespace trainrun;
using namespace trainrun::core;
using Decision = RestartPolicy::Decision;

namespace {

constexpr Instant start{seconds(1000)};
constexpr WorkerId first{1}, second{2}, newcomer{9};
constexpr HostIndex here{0}, there{1};

struct PolicyBench {
  // Decides, does it, and covers those who were there.
  Decision ask(const RestartPolicy::Question& question, Instant now = start) {
    const auto decision = policy.decide(question, now);
    CHECK(policy.decide(question, now) == decision);  // to ask changes nothing
    policy.apply(decision, question, now);
    if (decision != Decision::restart) return decision;
    policy.begin(now);
    for (const auto worker : {first, second}) policy.cover(worker);
    for (const auto host : {here, there}) policy.cover(host);
    return decision;
  }
  RestartPolicy policy{{.count = 2, .window = seconds(100)}};
};

}  // namespace

TEST_CASE("RestartPolicy: a planned change costs nothing, a failure takes one from the budget") {
  PolicyBench bench;
  for (int i = 0; i < 5; ++i) CHECK(bench.ask({.planned = true}) == Decision::change);
  CHECK(bench.policy.spent() == 0);
  CHECK(bench.ask({.failed = {first}}) == Decision::restart);
  CHECK(bench.policy.over(start + seconds(3)) == seconds(3));
  CHECK(bench.ask({.failed = {first}}) == Decision::restart);
  bench.policy.over(start);
  CHECK(bench.ask({.failed = {first}}) == Decision::out_of_restarts);
  CHECK(bench.policy.spent() == 2);
  // The window slides.
  CHECK(bench.policy.decide({.failed = {first}}, start + seconds(101)) == Decision::restart);
}

TEST_CASE("RestartPolicy: who was there belongs to the restart that is under way, once") {
  PolicyBench bench;
  REQUIRE(bench.ask({.failed = {first}}) == Decision::restart);
  SUBCASE("a rank") {
    CHECK(bench.ask({.failed = {second}}) == Decision::same_restart);
    CHECK(bench.ask({.failed = {second}}) == Decision::restart);
  }
  SUBCASE("a host, with its ranks") {
    CHECK(bench.ask({.lost = there, .failed = {second}}) == Decision::same_restart);
    CHECK(bench.ask({.lost = there}) == Decision::restart);
  }
  SUBCASE("a host that is only told of") {
    CHECK(bench.policy.take(there));
    CHECK_FALSE(bench.policy.take(there));
    CHECK(bench.ask({.lost = there}) == Decision::restart);
  }
  SUBCASE("whoever came anew pays for itself") {
    CHECK(bench.ask({.failed = {second, newcomer}}) == Decision::restart);
  }
  SUBCASE("a world that broke, and of which nobody failed, is paid for") {
    CHECK(bench.ask({}) == Decision::restart);
  }
  SUBCASE("nobody, once the world has come up") {
    bench.policy.over(start + seconds(1));
    CHECK_FALSE(bench.policy.since());
    CHECK_FALSE(bench.policy.take(there));
    CHECK(bench.ask({.failed = {second}}) == Decision::restart);
  }
}

TEST_CASE("RestartPolicy: the time of a restart counts from its first failure") {
  PolicyBench bench;
  bench.policy.begin(start);
  bench.policy.begin(start + seconds(5));
  CHECK(bench.policy.since() == start);
  CHECK(bench.policy.over(start + seconds(7)) == seconds(7));
  CHECK(bench.policy.over(start + seconds(9)) == Duration::zero());
}
