// Turns a loop until something is so.
#pragma once

#include <doctest/doctest.h>

#include <functional>

#include "launcher/io/loop.h"

namespace trainrun::test {

constexpr Duration time_limit = seconds(20);

// Or for ever as a test is concerned.
inline void run_until(io::Loop& loop, const std::function<bool()>& done) {
  io::Timer tick(loop);
  const auto deadline = io::Loop::now() + time_limit;
  const std::function<void()> look = [&] {
    if (done() || io::Loop::now() > deadline) return loop.stop();
    tick.arm(io::Loop::now() + milliseconds(1), look);
  };
  look();
  loop.run();
  CHECK(done());
}

}  // namespace trainrun::test
