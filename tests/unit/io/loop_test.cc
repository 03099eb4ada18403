#include "launcher/io/loop.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <thread>

#include "launcher/io/clock.h"

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

  TEST_CASE("a stop puts timers off, but for those that count real time") {
    Loop loop;
    loop.leave_out_stops();
    Timer running(loop), real(loop), stop(loop);
    std::string order;
    const auto look = [&] {
      if (order.size() == 2) loop.stop();
    };
    const auto from = io::real_now();
    const auto begun = Loop::now();
    running.arm(begun + milliseconds(100), [&] { order += 'n', look(); });
    real.arm_real(from + milliseconds(300), [&] { order += 'r', look(); });
    stop.arm(begun, [&] {
      while (io::real_now() < from + milliseconds(400)) {  // as a stopped process lets time pass
      }
      io::stood_still(from);
    });
    loop.run();
    CHECK(order == "rn");
    CHECK(Loop::now() < begun + milliseconds(400));
    CHECK(io::last_stop().first == from);
    io::forget_stops();
  }

  TEST_CASE("a stop that nobody told is found by the first who asks for the time") {
    Loop loop;
    loop.leave_out_stops();
    const auto from = io::real_now();
    const auto begun = Loop::now();
    while (io::real_now() < from + milliseconds(1500)) {
    }
    const auto now = Loop::now();
    CHECK(now - begun <= milliseconds(250));  // a beat was due by then
    CHECK(Loop::now() >= now);
    CHECK(io::real_at(now) - from >= milliseconds(1500));
    io::forget_stops();
    CHECK(Loop::now() - begun >= milliseconds(1500));
  }
}
