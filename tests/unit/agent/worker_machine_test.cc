#include "launcher/agent/worker_machine.h"

#include <doctest/doctest.h>

#include <vector>

using trainrun::agent::WorkerMachine;
using Event = WorkerMachine::Event;
using State = WorkerMachine::State;

TEST_SUITE("worker_machine") {
  TEST_CASE("every pair of state and event") {
    struct Start {
      State state;
      int open_pipes;
      std::vector<Event> way;
    };
    const Start starts[] = {
        {State::ordered, 2, {}},
        {State::spawned, 2, {Event::spawned}},
        {State::spawned, 1, {Event::spawned, Event::pipe_ended}},
        {State::spawned, 0, {Event::spawned, Event::pipe_ended, Event::pipe_ended}},
        {State::exited, 2, {Event::spawned, Event::reaped}},
        {State::exited, 1, {Event::spawned, Event::reaped, Event::pipe_ended}},
        {State::finished, 0, {Event::spawned, Event::pipe_ended, Event::pipe_ended, Event::reaped}},
        {State::finished, 2, {Event::spawned, Event::reaped, Event::drain_deadline}},
    };
    const auto expected = [](const Start& from, Event event) {
      if (from.state == State::ordered && event == Event::spawned) return State::spawned;
      if (from.state == State::spawned && event == Event::reaped)
        return from.open_pipes == 0 ? State::finished : State::exited;
      if (from.state == State::exited && event == Event::drain_deadline) return State::finished;
      if (from.state == State::exited && event == Event::pipe_ended && from.open_pipes == 1)
        return State::finished;
      return from.state;  // late and crossed events change nothing
    };
    for (const auto& from : starts) {
      for (const auto event : {Event::spawned, Event::reaped, Event::pipe_ended, Event::drain_deadline}) {
        CAPTURE(static_cast<int>(from.state));
        CAPTURE(from.open_pipes);
        CAPTURE(static_cast<int>(event));
        WorkerMachine machine;
        for (const auto step : from.way) machine.step(step);
        REQUIRE(machine.state() == from.state);
        const auto next = expected(from, event);
        CHECK(machine.step(event) == (next == State::finished && from.state != State::finished));
        CHECK(machine.state() == next);
        CHECK(machine.draining() == (next == State::exited));
      }
    }
  }
}
