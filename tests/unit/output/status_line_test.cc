#include "launcher/output/status_line.h"

#include <doctest/doctest.h>

using namespace trainrun;
using Phase = core::JobMachine::Phase;

TEST_CASE("the status line says what is done, by whom, and since when") {
  const Instant now{seconds(100)};
  core::JobMachine::Progress p;
  const auto line = [&](Phase phase, Duration elapsed = milliseconds(1900)) {
    p.phase = phase;
    return output::status_line(p, now, elapsed, seconds(10));
  };
  CHECK(line(Phase::gathering, seconds(7)) == "waiting for the host discovery, 7 s");
  p.hosts = 2, p.hosts_ready = 1, p.ranks = 2, p.started = 1, p.alive = 2;
  CHECK(line(Phase::gathering) == "connecting: 1 of 2 hosts, 1 s");
  CHECK(line(Phase::forming) == "starting: 1 of 2 ranks, 1 s");
  CHECK(line(Phase::running) == "2 of 2 ranks running, 1 s");
  p.joined = 1, p.ordered_at = now - seconds(7);
  CHECK(line(Phase::running) == "2 of 2 ranks started, 1 of them waiting for 1 other for 7 s, 1 s");
  p.joined = 0, p.waiting = 1;
  CHECK(line(Phase::running) == "2 of 2 ranks running, 1 of them waiting for the next generation, 1 s");
  p.waiting = 0, p.newcomers = 1;
  CHECK(line(Phase::running) == "2 of 2 ranks running, 1 more starting, 1 s");
  p.newcomers = 0, p.newcomers_at = now + seconds(4);
  CHECK(line(Phase::running) == "2 of 2 ranks running, more start in 4 s, 1 s");
  p.newcomers_at.reset();
  p.alive = p.finished = p.ending = 1;
  CHECK(line(Phase::running, seconds(65)) == "1 of 2 ranks running, 1 done, 1m05s");
  p.drained_at = now - seconds(3);
  CHECK(line(Phase::draining) == "ending 1 rank, 3 s of 10 s");
  p.ending = 0;
  CHECK(line(Phase::draining) == "clearing up, 1 s");
  CHECK(line(Phase::closing) == "clearing up, 1 s");
  p.generation = 3;
  CHECK(line(Phase::cooling) == "generation 3: waiting for the next generation, 1 s");
}
