#include "launcher/core/verdict.h"

#include <doctest/doctest.h>

#include <csignal>

using namespace trainrun;
using namespace trainrun::core;

namespace {

using Kind = Outcome::Kind;

// A world of one host whose members have all ended.
struct Ended {
  World world{{}};

  explicit Ended(std::uint32_t ranks) {
    Placement placement;
    placement.generation = {1};
    for (std::uint32_t i = 0; i < ranks; ++i) {
      Seat seat;
      seat.rank = {i};
      placement.seats.push_back(seat);
    }
    world.plan(placement);
    std::vector<WorkerId> members;
    for (const auto& seat : placement.seats) members.push_back(world.order(seat, {}));
    world.begin(members);
    for (const auto id : members) end(id, ExitStatus::exited(0));
  }
  [[nodiscard]] WorkerId id(std::uint32_t rank) const { return world.member_at({rank})->id; }
  void end(WorkerId worker, const ExitStatus& status, Departure departure = Departure::by_itself) {
    world.change(worker, [&](Worker& it) {
      it.member = true;
      it.state = WorkerState::finished;
      it.status = status;
      it.departure = departure;
    });
  }
  Failure fail(std::uint32_t rank, const ExitStatus& status) {
    const Failure failure{id(rank), {rank}, {}, 0, status};
    end(id(rank), status);
    world.failed(id(rank), failure, {});
    return failure;
  }
  [[nodiscard]] Outcome counted(Kind kind, std::optional<Failure> cause = {}, int signal = 0) const {
    Outcome outcome;
    outcome.kind = kind;
    outcome.cause = std::move(cause);
    outcome.signal = signal;
    count_others(world, outcome);
    return outcome;
  }
};

}  // namespace

TEST_SUITE("verdict") {
  TEST_CASE("everybody but the cause is counted once, by what became of it") {
    Ended it(8);
    const auto cause = it.fail(0, ExitStatus::exited(3));
    it.fail(2, ExitStatus::exited(4));
    it.end(it.id(3), ExitStatus::killed(SIGTERM, false), Departure::after_signal);
    it.end(it.id(4), ExitStatus::lost("gone"));
    it.end(it.id(5), ExitStatus::not_started(SpawnStage::affinity, 22));
    it.end(it.id(6), ExitStatus::lost("left"), Departure::left_behind);
    it.end(it.id(7), ExitStatus::exited(1), Departure::raised);
    const auto outcome = it.counted(Kind::worker_failed, cause);
    const auto& others = outcome.others;
    CHECK(others.finished == 1);
    CHECK(others.failed == 1);
    CHECK(others.terminated == 1);
    CHECK(others.lost == 1);
    CHECK(others.not_started == 1);
    CHECK(others.left == 1);
    CHECK(others.raised == 1);
    CHECK(others.killed == 0);
    REQUIRE(outcome.also_failed.size() == 1);
    CHECK(outcome.also_failed[0].rank == Rank{2});
  }

  TEST_CASE("one that needed SIGKILL, and one that ended with 0 since it was asked to") {
    Ended it(2);
    it.world.doom(it.id(0), Fate::killed);
    it.end(it.id(0), ExitStatus::killed(SIGKILL, false), Departure::after_signal);
    it.end(it.id(1), ExitStatus::exited(0), Departure::after_signal);
    const auto others = it.counted(Kind::timed_out).others;
    CHECK(others.killed == 1);
    CHECK(others.terminated == 1);
    CHECK(others.finished == 0);
  }

  TEST_CASE("what a batch system's signal did to ranks and agents is no failure") {
    Ended it(3);
    it.fail(0, ExitStatus::killed(SIGTERM, false));
    it.fail(1, ExitStatus::exited(1));
    it.end(it.id(2), ExitStatus::lost("its agent went"), Departure::with_agent);
    const auto user = it.counted(Kind::user_signal, {}, SIGTERM);
    CHECK(user.others.terminated == 2);
    CHECK(user.others.failed == 1);
    CHECK(user.also_failed.empty());  // nobody is blamed
    const auto host = it.counted(Kind::host_lost);
    CHECK(host.others.failed == 2);
    CHECK(host.others.lost == 1);
  }

  TEST_CASE("who raised while another cause ended the job was ended by us") {
    Ended it(1);
    it.end(it.id(0), ExitStatus::exited(1), Departure::raised);
    CHECK(it.counted(Kind::timed_out).others.terminated == 1);
  }

  TEST_CASE("what members reported is told where they named another than the first that failed") {
    Ended it(3);
    const auto verdict = it.counted(Kind::worker_failed, it.fail(0, ExitStatus::exited(3)));
    const auto failed_at = verdict.cause->at;
    const auto says_more_than = [&](std::vector<Rank> culprits, Instant at, const Outcome& outcome) {
      return says_more({Generation{1}, "it broke", std::move(culprits)}, at, outcome);
    };
    CHECK(says_more_than({Rank{1}}, failed_at + seconds(1), verdict));
    CHECK_FALSE(says_more_than({Rank{0}, Rank{1}}, failed_at, verdict));
    CHECK(says_more_than({Rank{0}}, failed_at - seconds(1), verdict));  // before it failed
    CHECK_FALSE(says_more_than({Rank{1}}, failed_at, it.counted(Kind::host_lost)));
    CHECK_FALSE(says_more_than({Rank{1}}, failed_at, it.counted(Kind::worker_failed)));
    // That they disagree, and fail then; not what they noticed of one that had failed.
    CHECK(says_more_than({}, failed_at - milliseconds(1), verdict));
    CHECK_FALSE(says_more_than({}, failed_at, verdict));
    auto unsure = verdict;
    unsure.cause->error = seconds(1);
    CHECK_FALSE(says_more_than({}, failed_at - seconds(1), unsure));
  }

  TEST_CASE("those that also failed are told in the order of ranks") {
    Ended it(3);
    it.fail(2, ExitStatus::exited(4));
    it.fail(1, ExitStatus::exited(5));
    const auto cause = it.fail(0, ExitStatus::exited(3));
    const auto outcome = it.counted(Kind::worker_failed, cause);
    REQUIRE(outcome.also_failed.size() == 2);
    CHECK(outcome.also_failed[0].rank == Rank{1});
    CHECK(outcome.also_failed[1].rank == Rank{2});
  }

  TEST_CASE("who exits within 5 s after the exchange broke, by its own clock's error, ended for that") {
    const Instant broken = Instant{} + seconds(100);
    Failure failure;
    failure.status = ExitStatus::exited(1);
    failure.at = broken + seconds(5);
    CHECK(ended_for_lack_of_exchange(failure, broken));
    failure.at = broken + seconds(5) + milliseconds(1);
    CHECK_FALSE(ended_for_lack_of_exchange(failure, broken));
    failure.error = milliseconds(1);
    CHECK(ended_for_lack_of_exchange(failure, broken));
    failure.status = ExitStatus::aborted(1);
    CHECK(ended_for_lack_of_exchange(failure, broken));
    failure.status = ExitStatus::killed(SIGSEGV, false);
    CHECK_FALSE(ended_for_lack_of_exchange(failure, broken));
  }

  TEST_CASE(
      "who exits with 0 after the exchange broke, and could not say that it left MPI, is not to blame") {
    Failure failure;
    failure.status = ExitStatus::deserted("within MPI");
    failure.at = Instant{} + seconds(200);
    CHECK(ended_for_lack_of_exchange(failure, Instant{} + seconds(100)));
  }
}
