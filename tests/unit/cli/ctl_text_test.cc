#include "cli/ctl_text.h"

#include <doctest/doctest.h>

namespace trainrun::cli {
namespace {

TEST_CASE("the world as a table") {
  const control::WorldView world{
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
                 .age = seconds(125)},
                {.rank = 10, .worker = 9, .host = "gpu10", .local_rank = 1, .pid = 0, .state = "ordered"}},
      .newcomers = {{.rank = 11, .worker = 12, .host = "gpu10", .pid = 5, .state = "loading"}},
      .hosts = {{.name = "gpu1", .state = "ready", .slots = 2, .ranks = 1},
                {.name = "gpu10",
                 .state = "cooling",
                 .slots = 16,
                 .ranks = 0,
                 .note = "no answer for 3.0 s",
                 .cooldown = seconds(20)}}};
  CHECK(world_text(world) ==
        "job 0123456789abcdef: generation 3, running, 2 ranks, 1 more starting (wanted: 1 to 4), 1 of 10 "
        "restarts used\n"
        "\n"
        "rank  host   local   pid  state    since\n"
        "   0  gpu1       0  4711  running  2m05s\n"
        "  10  gpu10      1     -  ordered      -\n"
        "  11  gpu10      0     5  loading      -\n"
        "\n"
        "host   state    slots  ranks  cool-down  note\n"
        "gpu1   ready        2      1          -\n"
        "gpu10  cooling     16      0     20.0 s  no answer for 3.0 s\n");
}

TEST_CASE("ranks that are started later, since one has failed") {
  const control::WorldView world{.generation = 3,
                                 .phase = "running",
                                 .job_id = "aa",
                                 .min_np = 1,
                                 .max_np = 4,
                                 .restarts_used = 1,
                                 .restart_limit = 10,
                                 .ranks = {},
                                 .newcomers_in = milliseconds(3200),
                                 .hosts = {}};
  CHECK(world_text(world) ==
        "job aa: generation 3, running, 0 ranks, more start in 3.2 s (wanted: 1 to 4), 1 of 10 restarts "
        "used\n");
}

TEST_CASE("what became of a host that was added") {
  const auto after = [](control::HostView host) {
    control::WorldView world;
    world.hosts = {{.name = "gpu1", .state = "ready"}, std::move(host)};
    return after_adding(world, "gpu9");
  };
  CHECK(after({.name = "gpu9", .state = "ready"}) == "");
  CHECK(after({.name = "gpu9", .state = "absent"}) == "");  // nobody needs it
  CHECK_FALSE(after({.name = "gpu9", .state = "dialling"}).has_value());
  CHECK(after({.name = "gpu9",
               .state = "absent",
               .note = "cannot connect: Name or service not known",
               .cooldown = seconds(2)}) ==
        "; not reached yet: cannot connect: Name or service not known, tried again in 2.0 s");
}

TEST_CASE("a world of nobody, and text that would steer a terminal") {
  control::WorldView world{.generation = 1,
                           .phase = "gathering",
                           .job_id = "aa",
                           .min_np = 2,
                           .max_np = 2,
                           .ranks = {},
                           .hosts = {}};
  CHECK(world_text(world) ==
        "job aa: generation 1, gathering, 0 ranks (wanted: exactly 2), 0 of 0 restarts used\n");
  world.hosts.push_back(
      {.name = "a\x1b[2J", .state = "lost", .slots = 1, .ranks = 0, .note = "x\ny\xc2\x9b"});
  const auto text = world_text(world);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\x9b') == std::string::npos);
  CHECK(text.ends_with("a\\x1b[2J  lost       1      0          -  x\\x0ay\\xc2\\x9b\n"));
}

TEST_CASE("jobs as a table, also those that do not answer") {
  const auto when = [](std::int64_t) { return std::string("2026-11-21 10:00:00"); };
  CHECK(jobs_text({{"aa", control::Identity{"0.1.0", "aa", 4711, 1, "trainrun -np 2 ./x\n"}}, {"bb", {}}},
                  when) ==
        "job   pid  started              command\n"
        "aa   4711  2026-11-21 10:00:00  trainrun -np 2 ./x\\x0a\n"
        "bb      -  -                    (does not answer)\n");
}

}  // namespace
}  // namespace trainrun::cli
