#include "launcher/control/world_view.h"

#include <doctest/doctest.h>

namespace trainrun::control {
namespace {

WorldView example() {
  return {
      .generation = 3,
      .phase = "running",
      .job_id = "0123456789abcdef",
      .min_np = 1,
      .max_np = 4,
      .restarts = 12,
      .restarts_used = 1,
      .restart_limit = 10,
      .ranks = {{.rank = 0,
                 .worker = 7,
                 .host = "gpu1",
                 .local_rank = 0,
                 .pid = 4711,
                 .state = "running",
                 .age = milliseconds(12500)},
                {.rank = 1, .worker = 9, .host = "fd00::1", .local_rank = 0, .pid = 0, .state = "ordered"}},
      .newcomers = {{.rank = 2,
                     .worker = 10,
                     .host = "gpu1",
                     .local_rank = 1,
                     .pid = 4712,
                     .state = "loading",
                     .age = seconds(3)}},
      .newcomers_in = milliseconds(2500),
      .hosts = {{.name = "gpu1", .state = "ready", .slots = 2, .ranks = 1},
                {.name = "gpu2",
                 .state = "cooling",
                 .slots = 2,
                 .ranks = 0,
                 .note = "no answer for 3.0 s",
                 .cooldown = seconds(20)}}};
}

TEST_CASE("the reply to world is the line that world_view.h promises") {
  CHECK(
      to_json(example()) ==
      R"({"ok":true,"schema":1,"job_id":"0123456789abcdef","elastic":true,"generation":3,"phase":"running",)"
      R"("min_np":1,"max_np":4,"restarts":12,"restarts_used":1,"restart_limit":10,)"
      R"("ranks":[{"rank":0,"worker":7,"host":"gpu1","local_rank":0,"pid":4711,"state":"running","seconds":12.5},)"
      R"({"rank":1,"worker":9,"host":"fd00::1","local_rank":0,"state":"ordered"}],)"
      R"("newcomers":[{"rank":2,"worker":10,"host":"gpu1","local_rank":1,"pid":4712,"state":"loading","seconds":3.0}],)"
      R"("newcomers_in":2.5,)"
      R"("hosts":[{"name":"gpu1","state":"ready","slots":2,"ranks":1,"note":""},)"
      R"({"name":"gpu2","state":"cooling","slots":2,"ranks":0,"note":"no answer for 3.0 s","cooldown":20.0}]})");
}

TEST_CASE("what is written is read again") {
  CHECK(read_world(to_json(example())).value() == example());
  CHECK(read_world(to_json(WorldView{})).value() == WorldView{});
}

TEST_CASE("keys of a newer launcher are skipped, missing ones are empty, nonsense is no number") {
  const auto world = read_world(
      R"({"ok":true,"schema":1,"new":{},"generation":"x","ranks":[7,{"rank":1.5,"host":[],"seconds":1e300}],)"
      R"("hosts":[{"name":"a","cooldown":-1,"slots":null}]})");
  REQUIRE(world.has_value());
  CHECK(world->generation == 0);
  REQUIRE(world->ranks.size() == 1);
  CHECK(world->ranks.front() == RankView{});
  REQUIRE(world->hosts.size() == 1);
  CHECK(world->hosts.front() == HostView{.name = "a", .state = ""});
}

TEST_CASE("what is no world is an error, not an empty world") {
  CHECK(read_world(R"({"ok":false,"code":"try_again","error":"ending"})").error() ==
        Error{Code::try_again, "ending", ""});
  for (const auto* line : {R"({"ok":true})", R"({"ok":true,"schema":2,"ranks":[],"hosts":[]})",
                           R"({"ok":true,"schema":1,"ranks":[]})", "x"})
    CHECK(read_world(line).error().code == Code::protocol);
}

}  // namespace
}  // namespace trainrun::control
