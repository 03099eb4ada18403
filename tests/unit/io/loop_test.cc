#include "launcher/io/loop.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <thread>

using namespace trainrun;
using io::Loop;
using io::Timer;

TEST_SUITE("loop") {
  TEST_CASE("timers fire in the order of their deadlines") {
    Loop loop;
    Timer a(loop), b(loop);
    std::string order;
    const auto now = Loop::now();
    a.arm(now + milliseconds(2), [&] { order += 'a'; });
    b.arm(now + milliseconds(1), [&] { order += 'b'; });
    loop.run();
    CHECK(order == "ba");
    CHECK_FALSE(a.armed());
  }

  TEST_CASE("a timer may be armed again, disarmed and destroyed inside its own callback") {
    Loop loop;
    std::optional<Timer> timer;
    timer.emplace(loop);
    std::string order;
    timer->arm(Loop::now(), [&] {
      CHECK_FALSE(timer->armed());
      timer->arm(Loop::now(), [&] {
        order += '2';
        timer->disarm();
        timer->arm(Loop::now(), [&] {
          order += '3';
          timer.reset();
        });
      });
      order += '1';
    });
    loop.run();
    CHECK(order == "123");
  }

  TEST_CASE("a callback that is due already does nothing once another disarmed or re-armed its timer") {
    Loop loop;
    Timer first(loop), second(loop), third(loop);
    std::string order;
    const auto due = Loop::now() - seconds(1);
    first.arm(due, [&] {
      order += '1';
      second.disarm();
      third.arm(Loop::now(), [&] { order += 'n'; });
    });
    second.arm(due, [&] { order += '2'; });
    third.arm(due, [&] { order += 'o'; });
    loop.run();
    CHECK(order == "1n");
  }

  TEST_CASE("re-arming replaces the callback") {
    Loop loop;
    Timer timer(loop);
    std::string order;
    timer.arm(Loop::now(), [&] { order += 'x'; });
    timer.arm(Loop::now(), [&] { order += 'y'; });
    CHECK(timer.armed());
    loop.run();
    CHECK(order == "y");
  }

  TEST_CASE("work posted by another thread runs on the loop's") {
    Loop loop;
    std::thread::id ran;
    std::thread other([&] { loop.post([&] { ran = std::this_thread::get_id(); }); });
    other.join();
    loop.run();
    CHECK(ran == std::this_thread::get_id());
  }
}
