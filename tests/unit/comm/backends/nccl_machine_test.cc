#include "comm/backends/nccl/machine.h"

#include <doctest/doctest.h>

#include "launcher/base/time.h"

using namespace trainrun;
using namespace trainrun::comm::nccl;

namespace {

using Do = Machine::Do;
using State = Machine::State;
using Kind = Machine::Problem::Kind;

constexpr Instant zero{};
constexpr auto good = Answer::success, pending = Answer::in_progress;

Machine fresh() { return {zero + seconds(60), seconds(10)}; }

Machine open_one() {
  auto machine = fresh();
  machine.answered(Do::start, pending, "", zero);
  machine.answered(Do::poll, good, "", zero);
  REQUIRE(machine.state() == State::open);
  return machine;
}

}  // namespace

TEST_CASE("a communicator is started once, then polled until it is open") {
  auto machine = fresh();
  CHECK(machine.next(false) == Do::start);
  machine.answered(Do::start, pending, "", zero);
  for (int i = 0; i < 3; ++i) {
    CHECK(machine.next(true) == Do::poll);
    machine.answered(Do::poll, pending, "", zero);
    CHECK(machine.state() == State::opening);
  }
  machine.answered(Do::poll, good, "", zero);
  CHECK(machine.next(true) == Do::serve);
}

TEST_CASE("one that NCCL opens at once is asked all the same") {
  auto machine = fresh();
  machine.answered(Do::start, good, "", zero);
  CHECK(machine.next(true) == Do::poll);
}

TEST_CASE("what was served is polled until NCCL has taken it in") {
  auto machine = open_one();
  machine.answered(Do::serve, pending, "", zero);
  CHECK(machine.busy());
  CHECK(machine.next(true) == Do::poll);
  machine.answered(Do::poll, good, "", zero);
  CHECK(machine.next(true) == Do::serve);
  machine.answered(Do::serve, good, "", zero);
  CHECK_FALSE(machine.busy());
}

TEST_CASE("an init that fails at once leaves nothing to abort, or what NCCL has given") {
  for (const bool handle : {false, true}) {
    auto machine = fresh();
    machine.answered(Do::start, Answer::cuda_error, "no driver", zero);
    CHECK(machine.state() == State::breaking);
    CHECK(machine.next(handle) == (handle ? Do::abort : Do::end));
    CHECK(machine.problem()->kind == Kind::library);
    CHECK(machine.problem()->text == "no driver");
  }
}

TEST_CASE("the kind of an error") {
  for (int answer = 0; answer < 20; ++answer)
    CHECK(kind_of(Answer{answer}) == (answer == 2 || answer == 6 ? Kind::peers : Kind::library));
}

TEST_CASE("one that does not open in time is broken off, and NCCL must let go of it in its time") {
  auto machine = fresh();
  machine.answered(Do::start, pending, "", zero);
  machine.look_at_time(zero + seconds(59));
  CHECK(machine.state() == State::opening);
  machine.look_at_time(zero + seconds(60));
  CHECK(machine.next(true) == Do::abort);
  CHECK(machine.problem()->kind == Kind::late);
  CHECK_FALSE(machine.stuck(zero + seconds(69)));
  CHECK(machine.stuck(zero + seconds(70)));
}

TEST_CASE("the first problem stays, whatever comes after it") {
  auto machine = open_one();
  machine.answered(Do::poll, Answer::remote_error, "gone", zero);
  machine.abort(zero + seconds(1));
  machine.answered(Do::serve, Answer::internal_error, "later", zero + seconds(2));
  machine.leave(zero + seconds(3));
  CHECK(machine.problem()->kind == Kind::peers);
  CHECK(machine.problem()->text == "gone");
  CHECK(machine.gone_until() == zero + seconds(10));
  CHECK(machine.next(true) == Do::abort);
}

TEST_CASE("closing: finalize, polled until nothing is under way, destroy") {
  auto machine = open_one();
  machine.leave(zero);
  CHECK(machine.next(true) == Do::finalize);
  machine.answered(Do::finalize, pending, "", zero);
  CHECK(machine.next(true) == Do::poll);
  machine.answered(Do::poll, pending, "", zero);
  CHECK(machine.next(true) == Do::poll);
  machine.answered(Do::poll, good, "", zero);
  CHECK(machine.next(true) == Do::destroy);
  machine.answered(Do::destroy, good, "", zero);
  CHECK(machine.next(false) == Do::end);
  CHECK_FALSE(machine.problem());
}

TEST_CASE("one that does not close in time is aborted instead") {
  auto machine = open_one();
  machine.leave(zero);
  machine.answered(Do::finalize, pending, "", zero);
  machine.look_at_time(zero + seconds(10));
  CHECK(machine.next(true) == Do::abort);
  CHECK_FALSE(machine.stuck(zero + seconds(19)));
  CHECK(machine.stuck(zero + seconds(20)));
}

TEST_CASE("a communicator that is left before it is open is aborted") {
  auto machine = fresh();
  machine.leave(zero);
  CHECK(machine.state() == State::breaking);
  CHECK(machine.next(false) == Do::end);
}

TEST_CASE("in every state and after every answer there is a way to the end") {
  const auto answers = {Answer::success, Answer::in_progress, Answer::cuda_error, Answer::remote_error,
                        Answer{99}};
  const auto all = {Do::start, Do::poll, Do::serve, Do::finalize, Do::destroy, Do::abort};
  for (const auto first : all)
    for (const auto answer : answers)
      for (const bool left : {false, true}) {
        auto machine = left ? open_one() : fresh();
        if (left) machine.leave(zero);
        machine.answered(first, answer, "", zero);
        machine.abort(zero);
        bool handle = true;
        int turns = 0;
        for (auto what = machine.next(handle); what != Do::end && turns < 9;
             what = machine.next(handle), ++turns) {
          if (what == Do::abort || what == Do::destroy) handle = false;
          machine.answered(what, good, "", zero);
        }
        CHECK(machine.state() == State::gone);
        CHECK(machine.next(handle) == Do::end);
      }
}
