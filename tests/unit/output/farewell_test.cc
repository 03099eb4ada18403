#include "launcher/output/farewell.h"

#include <doctest/doctest.h>

using namespace trainrun;
using output::Farewell;

namespace {

constexpr Duration soon = milliseconds(5), never = seconds(60);

struct Reader {
  Farewell::Sink sink(Duration time_limit) {
    return {[this] { return waiting > 0 ? std::optional(waiting) : std::nullopt; },
            [this] {
              given_up = waiting;
              waiting = 0;
            },
            time_limit};
  }
  std::size_t waiting = 0, given_up = 0;
};

}  // namespace

TEST_SUITE("farewell") {
  TEST_CASE("where nothing waits it is over at once") {
    io::Loop loop;
    Farewell farewell(loop);
    Reader reader;
    bool over = false;
    farewell.start({reader.sink(never)}, [&] { over = true; });
    CHECK(over);
  }

  TEST_CASE("a reader that takes some now and then is waited for, beyond its time limit, until it has all") {
    io::Loop loop;
    Farewell farewell(loop);
    Reader reader{.waiting = 40};
    bool over = false;
    const auto begun = io::Loop::now();
    farewell.start({reader.sink(milliseconds(100))}, [&] { over = true; });
    io::Timer read(loop);
    const std::function<void()> take = [&] {
      --reader.waiting;
      farewell.look();
      if (reader.waiting > 0) read.arm(io::Loop::now() + soon, take);
    };
    take();
    loop.run();
    CHECK(over);
    CHECK(reader.given_up == 0);
    CHECK(io::Loop::now() - begun > milliseconds(100));
  }

  TEST_CASE("one that takes nothing is given up; another is not") {
    io::Loop loop;
    Farewell farewell(loop);
    Reader dead{.waiting = 7}, slow{.waiting = 1};
    bool over = false;
    farewell.start({dead.sink(soon), slow.sink(never)}, [&] { over = true; });
    io::Timer read(loop);
    read.arm(io::Loop::now() + 10 * soon, [&] {
      CHECK_FALSE(over);
      slow.waiting = 0;
      farewell.look();
    });
    loop.run();
    CHECK(over);
    CHECK(dead.given_up == 7);
    CHECK(slow.given_up == 0);
  }

  TEST_CASE("one that takes nothing is told of once, and waited for") {
    io::Loop loop;
    Farewell farewell(loop);
    Reader paused{.waiting = 7};
    auto sink = paused.sink(never);
    std::vector<std::size_t> told;
    sink.still_waits = [&](std::size_t bytes, Duration at_most) {
      told.push_back(bytes);
      CHECK(at_most <= seconds(100));
      CHECK(at_most > seconds(50));
    };
    farewell.limit(io::Loop::now() + seconds(500));  // of the one before
    sink.patience = soon;
    bool over = false;
    farewell.start({std::move(sink)}, [&] { over = true; });
    io::Timer read(loop);
    read.arm(io::Loop::now() + 10 * soon, [&] {
      CHECK(told == std::vector<std::size_t>{7});
      CHECK_FALSE(over);
      paused.waiting = 0;
      farewell.look();
    });
    loop.run();
    CHECK(over);
    CHECK(told.size() == 1);
    CHECK(paused.given_up == 0);
  }

  TEST_CASE("a limit cuts every time limit, and a later one does not put it off") {
    io::Loop loop;
    Farewell farewell(loop);
    Reader reader{.waiting = 3};
    int over = 0;
    farewell.start({reader.sink(never)}, [&] { ++over; });
    CHECK(over == 0);
    farewell.limit(io::Loop::now() + soon);
    farewell.limit(io::Loop::now() + never);
    loop.run();
    CHECK(over == 1);
    CHECK(reader.given_up == 3);
    farewell.look();
    CHECK(over == 1);
  }

  TEST_CASE("what is started from its end has no limit yet") {
    io::Loop loop;
    Farewell farewell(loop);
    Reader first{.waiting = 1}, second{.waiting = 1};
    bool over = false;
    io::Timer read(loop);
    farewell.start({first.sink(never)}, [&] {
      farewell.start({second.sink(never)}, [&] { over = true; });
      read.arm(io::Loop::now() + 2 * soon, [&] {
        second.waiting = 0;
        farewell.look();
      });
    });
    farewell.limit(io::Loop::now() + soon);
    loop.run();
    CHECK(over);
    CHECK(first.given_up == 1);
    CHECK(second.given_up == 0);
  }
}
