#include "launcher/io/turn.h"

#include <doctest/doctest.h>
#include <poll.h>

#include <ctime>

#include "launcher/io/beat.h"
#include "launcher/io/clock.h"
#include "launcher/io/loop.h"

using namespace trainrun;
using io::Turn;

namespace {

void run(std::function<void()> work) {
  io::Loop loop;
  loop.post(std::move(work));
  loop.run();
}

Duration cpu_of_this_thread() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

// One process has one count, so this is one story.
TEST_CASE("the longest turn is told, with what it computed and what it waited for") {
  run([] { ::poll(nullptr, 0, 30); });
  CHECK(Turn::longest().turns == 0);  // nobody has asked for it yet

  Turn::measure();
  run([] {});
  CHECK(Turn::longest().turns == 1);
  CHECK(Turn::longest().blocking_calls == 0);

  run([] {
    const Turn inner;  // a turn within a turn is a part of it
    const auto end = cpu_of_this_thread() + milliseconds(20);
    while (cpu_of_this_thread() < end) continue;
  });
  const auto busy = Turn::longest();
  CHECK(busy.turns == 2);
  CHECK(busy.cpu >= milliseconds(20));

  run([] { ::poll(nullptr, 0, 2000); });
  const auto waiting = Turn::longest();
  CHECK(waiting.turns == 3);
  CHECK(waiting.cpu < milliseconds(1000));
  CHECK(waiting.blocked >= milliseconds(1000));  // the rest it may have waited for the processor
  CHECK(waiting.blocking_calls >= 1);

  run([] {
    ::poll(nullptr, 0, 3000);
    Turn::leave_out(milliseconds(3000));  // as if it had stopped itself meanwhile
  });
  CHECK(Turn::longest().turns == 4);
  CHECK(Turn::longest().blocked == waiting.blocked);

  // What the loop waits for between its turns is no turn.
  io::Loop loop;
  io::Timer timer(loop);
  timer.arm(io::Loop::now() + milliseconds(2500), [] {});
  loop.run();
  CHECK(Turn::longest().turns == 5);
  CHECK(Turn::longest().blocked == waiting.blocked);

  // For a clock that leaves out stops a callback that holds the loop up for so long is one. It is a turn all
  // the same.
  run([] {
    io::beat(milliseconds(1));
    ::poll(nullptr, 0, 4000);
    static_cast<void>(io::Loop::now());
  });
  CHECK(io::last_stop().second > io::last_stop().first);
  CHECK(Turn::longest().turns == 6);
  CHECK(Turn::longest().blocked > waiting.blocked);
  io::forget_stops();
}
