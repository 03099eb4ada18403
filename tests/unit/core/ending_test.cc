#include "launcher/core/ending.h"

#include <doctest/doctest.h>

#include <csignal>

using namespace trainrun;
using core::Ending;
using core::UserSignal;
using Request = Ending::Request;

namespace {

constexpr Instant start = Instant{} + seconds(100);

}  // namespace

TEST_SUITE("ending") {
  TEST_CASE("the same signal within half a second is the same press, another one is not") {
    Ending ending;
    CHECK(ending.request(UserSignal{SIGINT}, start) == Request::first);
    CHECK(ending.request(UserSignal{SIGINT}, start + milliseconds(499)) == Request::same_press);
    CHECK(ending.request(UserSignal{SIGTERM}, start + milliseconds(499)) == Request::second);
    CHECK(ending.request(UserSignal{SIGTERM}, start + milliseconds(999)) == Request::third);
    CHECK(ending.requests() == 3);
    CHECK(ending.requested_at() == start);
  }

  TEST_CASE("half a second later the same signal is a press of its own, and so is each after the third") {
    Ending ending;
    CHECK(ending.requests() == 0);
    CHECK(ending.request(UserSignal{SIGINT}, start) == Request::first);
    CHECK(ending.request(UserSignal{SIGINT}, start + milliseconds(500)) == Request::second);
    CHECK(ending.request(UserSignal{SIGINT}, start + milliseconds(900)) == Request::same_press);
    CHECK(ending.request(UserSignal{SIGINT}, start + seconds(2)) == Request::third);
    CHECK(ending.request(UserSignal{SIGINT}, start + seconds(3)) == Request::third);
  }

  TEST_CASE("a press that is held counts from the last one heard as such, not from its repetitions") {
    Ending ending;
    ending.request(UserSignal{SIGINT}, start);
    CHECK(ending.request(UserSignal{SIGINT}, start + milliseconds(400)) == Request::same_press);
    CHECK(ending.request(UserSignal{SIGINT}, start + milliseconds(600)) == Request::second);
  }

  TEST_CASE("SIGKILL is sent once in a drain") {
    Ending ending;
    ending.drain(SIGTERM, start);
    CHECK(ending.drain_signal() == SIGTERM);
    CHECK(ending.drains_since() == start);
    CHECK(ending.kill());
    CHECK_FALSE(ending.kill());
    ending.drain(SIGUSR1, start + seconds(1));
    CHECK(ending.drain_signal() == SIGUSR1);
    CHECK(ending.drains_since() == start + seconds(1));
    CHECK(ending.kill());
  }

  TEST_CASE("a longer grace is advised once, three times as long and at least a minute") {
    Ending brief, lengthy;
    CHECK(brief.grace_to_advise(seconds(5)) == seconds(60));
    CHECK_FALSE(brief.grace_to_advise(seconds(5)));
    CHECK(lengthy.grace_to_advise(seconds(30)) == seconds(90));
  }
}
