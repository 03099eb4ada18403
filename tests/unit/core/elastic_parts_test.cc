// The parts of the elastic brain one by one: which hosts rest, how often restarts are allowed, who sits where
// next.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "launcher/core/host_ledger.h"
#include "launcher/core/replan.h"
#include "launcher/core/restart_budget.h"

using namespace trainrun;
using namespace trainrun::core;

namespace {

const Instant start{seconds(1000)};
const HostIndex a{0}, b{1}, c{2};

std::string seats(const Placement& placement) {
  std::string out;
  for (const auto& seat : placement.seats)
    out += (out.empty() ? "" : " ") + std::to_string(seat.host.value) + "." + std::to_string(seat.slot);
  return out;
}

JobSpec job_of(int np, int min_np = 0, int max_np = 0, int spares = 0) {
  JobSpec job;
  job.programs.push_back({{"./train"}, np, "/w", {}});
  job.elastic.min_np = min_np;
  job.elastic.max_np = max_np;
  job.elastic.spares = spares;
  return job;
}

}  // namespace

TEST_SUITE("core.host_ledger") {
  TEST_CASE("two failures of workers are their slots', the third within the window is the host's") {
    HostLedger ledger(seconds(10), seconds(300));
    CHECK_FALSE(ledger.worker_failed(a, start));
    CHECK_FALSE(ledger.worker_failed(a, start + seconds(1)));
    CHECK_FALSE(ledger.rests(a, start + seconds(1)));
    CHECK(ledger.worker_failed(a, start + seconds(2)));
    CHECK(ledger.rests_until(a, start + seconds(2)) == start + seconds(12));
    CHECK_FALSE(ledger.rests(b, start + seconds(2)));
    CHECK_FALSE(ledger.rests(a, start + seconds(12)));
  }
  TEST_CASE("a host that fails again soon after its rest is not tried three times more") {
    HostLedger ledger(seconds(10), seconds(300));
    for (int i = 0; i < 3; ++i) ledger.worker_failed(a, start);
    CHECK(ledger.worker_failed(a, start + seconds(11)));
    CHECK(ledger.rests_until(a, start + seconds(11)) == start + seconds(31));
    CHECK_FALSE(ledger.worker_failed(b, start + seconds(11)));
    const auto later = start + seconds(12) + HostLedger::window;
    CHECK_FALSE(ledger.worker_failed(a, later));
    ledger.host_failed(b, later);  // a host that was lost and came back is no sick one
    CHECK_FALSE(ledger.worker_failed(b, later + seconds(60)));
  }
  TEST_CASE("failures that are further apart than the window do not add up") {
    HostLedger ledger(seconds(10), seconds(300));
    for (int i = 0; i < 9; ++i) CHECK_FALSE(ledger.worker_failed(a, start + i * seconds(301)));
  }
  TEST_CASE("the rest doubles with each blame up to the longest, and is short again after a quiet window") {
    HostLedger ledger(seconds(10), seconds(50));
    auto now = start;
    for (const auto time : {seconds(10), seconds(20), seconds(40), seconds(50), seconds(50)}) {
      ledger.host_failed(a, now);
      CHECK(ledger.rests_until(a, now) == now + time);
      now += time;
    }
    now += HostLedger::window + seconds(1);
    ledger.host_failed(a, now);
    CHECK(ledger.rests_until(a, now) == now + seconds(10));
  }
  TEST_CASE("what is asked of a host that nothing is written down of, and of one at the edge of the window") {
    HostLedger ledger(seconds(10), seconds(300));
    CHECK_FALSE(ledger.knows(a));
    CHECK_FALSE(ledger.rested_lately(a, start));
    for (int i = 0; i < 3; ++i) ledger.worker_failed(a, start);
    CHECK(ledger.knows(a));
    CHECK(ledger.rested_lately(a, start + HostLedger::window));
    CHECK_FALSE(ledger.rested_lately(a, start + HostLedger::window + seconds(1)));
    ledger.worker_failed(b, start);
    ledger.worker_failed(b, start);
    CHECK(ledger.worker_failed(b, start + HostLedger::window));
    ledger.host_failed(c, start);
    ledger.host_failed(c, start + HostLedger::window);
    CHECK(ledger.rests_until(c, start + HostLedger::window) == start + HostLedger::window + seconds(20));
    ledger.host_failed(c, start + HostLedger::window + seconds(1),
                       seconds(1));  // a shorter one ends no longer one
    CHECK(ledger.rests_until(c, start + HostLedger::window + seconds(2)) >=
          start + HostLedger::window + seconds(41));
  }
  TEST_CASE("a silent host rests at least until its agent has noticed, and is forgiven by the user alone") {
    HostLedger ledger(seconds(1), seconds(2));
    ledger.host_failed(a, start, seconds(12));
    CHECK(ledger.rests(a, start + seconds(11)));
    ledger.forgive(a);
    CHECK_FALSE(ledger.rests(a, start));
  }
}

TEST_SUITE("core.restart_budget") {
  TEST_CASE("no more than the limit within any window") {
    std::mt19937 random(1);
    for (int limit = 0; limit < 5; ++limit) {
      RestartBudget budget({limit, seconds(100)});
      std::vector<Instant> taken;
      auto now = start;
      for (int i = 0; i < 500; ++i) {
        now += milliseconds(random() % 60'000);
        const auto within =
            std::count_if(taken.begin(), taken.end(), [now](Instant at) { return now - at <= seconds(100); });
        const bool got = budget.spend(now);
        CHECK(got == (within < limit));
        if (got) taken.push_back(now);
      }
    }
  }
  TEST_CASE(
      "the first is immediate, the next wait 1, 2, 4 ... at most 30 seconds, until the job makes progress") {
    RestartBudget budget({100, seconds(3600)});
    for (const auto wait : {0, 1, 2, 4, 8, 16, 30, 30}) {
      CHECK(budget.spend(start));
      CHECK(budget.backoff() == seconds(wait));
    }
    budget.progressed();
    CHECK(budget.spent() == 8);  // they stay spent
    for (const auto wait : {0, 1, 2}) {
      CHECK(budget.spend(start));
      CHECK(budget.backoff() == seconds(wait));
    }
  }
  TEST_CASE(
      "progress makes three restarts in a row immediate, and a minute of it starts from the beginning") {
    RestartBudget budget({100, seconds(3600)});
    const auto waits = [&budget] {
      CHECK(budget.spend(start));
      return budget.backoff();
    };
    for (const auto wait : {0, 0, 0, 1, 2, 4, 8, 16, 30, 30}) {
      CHECK(waits() == seconds(wait));
      budget.progressed();
    }
    budget.proved();
    for (const auto wait : {0, 1, 2}) CHECK(waits() == seconds(wait));
  }
  TEST_CASE("what has left the window makes nobody wait") {
    RestartBudget budget({100, seconds(10)});
    for (int i = 0; i < 5; ++i) CHECK(budget.spend(start));
    CHECK(budget.spend(start + seconds(11)));
    CHECK(budget.backoff() == seconds(0));
  }
}

TEST_SUITE("core.replan") {
  TEST_CASE("a world is as large as slots allow, and spares are free only beyond -np") {
    CHECK(world_size_on(job_of(4), 3) == 0);
    CHECK(world_size_on(job_of(4), 9) == 4);
    CHECK(world_size_on(job_of(4, 2), 3) == 3);
    CHECK(world_size_on(job_of(4, 2, 8), 7) == 7);
    CHECK(world_size_on(job_of(4, 2, 8, 2), 7) == 5);
    CHECK(world_size_on(job_of(4, 2, 8, 2), 5) == 4);
    CHECK(world_size_on(job_of(4, 2, 8), 20) == 8);
  }
  TEST_CASE("a lost host's ranks move to the free slots, the others keep their numbers") {
    const auto job = job_of(4);
    const auto first = replan_all(job, Generation{1}, {}, {{a, 2}, {b, 2}, {c, 2}}, 4);
    CHECK(seats(first) == "0.0 0.1 1.0 1.1");
    CHECK(seats(replan_all(job, Generation{2}, first.seats, {{b, 2}, {c, 2}}, 4)) == "2.0 2.1 1.0 1.1");
    CHECK(seats(replan_all(job, Generation{2}, first.seats, {{a, 2}, {c, 1}}, 3)) == "0.0 0.1 2.0");
  }
  TEST_CASE("with --map-by host ranks go round the hosts, also when others move, and hosts fill up in turn") {
    auto job = job_of(5);
    job.map_by = MapBy::host;
    const auto first = replan_all(job, Generation{1}, {}, {{a, 1}, {b, 3}, {c, 2}}, 5);
    CHECK(seats(first) == "0.0 1.0 2.0 1.1 2.1");
    CHECK(seats(replan_all(job, Generation{2}, first.seats, {{b, 3}, {c, 2}}, 5)) == "1.0 1.1 2.0 1.2 2.1");
  }
  TEST_CASE("ranks of a host follow each other, hosts in the order of their first rank") {
    const auto job = job_of(6, 2);
    const auto first = replan_all(job, Generation{1}, {}, {{a, 2}, {b, 2}, {c, 2}}, 6);
    // b goes, a has one more: rank 2 moves there, rank 3 is closed up.
    CHECK(seats(replan_all(job, Generation{2}, first.seats, {{a, 3}, {c, 2}}, 5)) == "0.0 0.1 0.2 2.0 2.1");
    CHECK(seats(replan_all(job, Generation{2}, first.seats, {{c, 2}, {a, 1}}, 3)) == "0.0 2.0 2.1");
    // A smaller world gives up its last ranks.
    CHECK(seats(replan_all(job, Generation{2}, first.seats, {{a, 2}, {b, 2}, {c, 2}}, 3)) == "0.0 0.1 1.0");
  }
  TEST_CASE("--oversubscribe makes hosts wider in turn, and counts as -np") {
    auto job = job_of(5, 2, 6);
    job.oversubscribe = true;
    CHECK(world_size_on(job, 1) == 5);
    CHECK(world_size_on(job, 0) == 0);
    CHECK(world_size_on(job, 6) == 6);
    CHECK(seats(replan_all(job, Generation{1}, {}, {{a, 1}, {b, 1}}, 5)) == "0.0 0.1 0.2 1.0 1.1");
    const auto first = replan_all(job, Generation{1}, {}, {{a, 1}, {b, 1}}, 2);
    CHECK(seats(replan_around(job, Generation{2}, {first.seats[1]}, {first.seats[0]}, {{a, 1}, {b, 1}}, 4)) ==
          "1.0 0.0 0.1 1.1");
  }
  TEST_CASE("the ranks of several programs are numbered one program after the other") {
    auto job = job_of(2);
    job.programs.push_back({{"./other"}, 3, "/w", {}});
    const auto first = replan_all(job, Generation{1}, {}, {{a, 3}, {b, 2}}, 5);
    std::vector<std::size_t> programs;
    for (const auto& seat : first.seats) programs.push_back(seat.program);
    CHECK(programs == std::vector<std::size_t>{0, 0, 1, 1, 1});
  }
  TEST_CASE("slots of a host: as many as were given, as ppr says, or the fewer of both") {
    const Host given{.name = "a", .slots = 4, .slots_given = true}, guessed{.name = "b", .slots = 4};
    auto job = job_of(4);
    CHECK(slots_of(job, given) == 4);
    job.ppr = 2;
    CHECK(slots_of(job, given) == 2);
    job.ppr = 6;
    CHECK(slots_of(job, given) == 4);
    CHECK(slots_of(job, guessed) == 6);
    job.oversubscribe = true;
    CHECK(slots_of(job, given) == 6);
  }
  TEST_CASE(
      "newcomers without a vacated slot fill host after host, up to its slots, those that are busy too") {
    const auto job = job_of(6);
    const auto one = replan_all(job, Generation{1}, {}, {{b, 3}}, 1);
    CHECK(seats(replan_around(job, Generation{2}, one.seats, {}, {{a, 2}, {b, 3}, {c, 2}}, 5)) ==
          "1.0 0.0 0.1 1.1 1.2");
    CHECK(seats(replan_around(job, Generation{2}, one.seats, {}, {{a, 2, {0}}, {b, 3}, {c, 2}}, 9)) ==
          "1.0 0.1 1.1 1.2 2.0 2.1");
    // Fewer places than survivors: the last ones have none, and their slots are not given away.
    const auto two = replan_all(job, Generation{1}, {}, {{a, 2}}, 2);
    CHECK(seats(replan_around(job, Generation{2}, two.seats, {}, {{a, 2}, {b, 1}}, 1)) == "0.0");
    // A vacated slot that the host does not have any more is not filled, nor one of a host that is full.
    CHECK(seats(replan_around(job, Generation{2}, {two.seats[0]}, {two.seats[1]}, {{a, 1}, {b, 1}}, 2)) ==
          "0.0 1.0");
    CHECK(seats(replan_around(job, Generation{2}, {two.seats[1]}, {two.seats[0]}, {{a, 1}, {b, 1}}, 2)) ==
          "0.1 1.0");
  }
  TEST_CASE("newcomers sit in vacated slots first, never where one that has no place still lives") {
    const auto job = job_of(4);
    const auto first = replan_all(job, Generation{1}, {}, {{a, 2}, {b, 2}}, 4);
    const std::vector<Seat> survivors{first.seats[0], first.seats[3]};
    const std::vector<Seat> vacated{first.seats[1], first.seats[2]};
    CHECK(seats(replan_around(job, Generation{2}, survivors, vacated, {{a, 2}, {b, 2}}, 4)) ==
          "0.0 1.1 0.1 1.0");
    CHECK(seats(replan_around(job, Generation{2}, survivors, vacated, {{a, 2, {1}}, {b, 2}}, 3)) ==
          "0.0 1.1 1.0");
  }
  TEST_CASE(
      "Horovod's ranks: those of a host follow each other, rank 0 survives, who stays keeps its local rank") {
    const auto job = job_of(5);
    const auto first = replan_all(job, Generation{1}, {}, {{a, 3}, {b, 2}}, 5);
    const std::vector<Seat> survivors{first.seats[1], first.seats[3], first.seats[2]};
    const std::vector<Seat> vacated{first.seats[0], first.seats[4]};
    const auto next =
        replan_around(job, Generation{2}, survivors, vacated, {{a, 3}, {b, 2}}, 5, Numbering::of_horovod);
    CHECK(seats(next) == "1.0 1.1 0.0 0.1 0.2");
    for (const auto& seat : next.seats) CHECK(seat.local_rank == seat.slot);
    // On a single host somebody has to give way.
    const auto one = replan_around(job, Generation{2}, {first.seats[1], first.seats[2]}, {first.seats[0]},
                                   {{a, 3}}, 3, Numbering::of_horovod);
    CHECK(seats(one) == "0.1 0.0 0.2");
    CHECK(seats(replan_around(job, Generation{3}, {first.seats[1], first.seats[2]}, {}, {{a, 3, {0}}}, 2,
                              Numbering::of_horovod)) == "0.1 0.2");
  }
  TEST_CASE("a stopped slot is not filled again through its neighbour, but --oversubscribe fills the world") {
    auto job = job_of(4);
    const auto first = replan_all(job, Generation{1}, {}, {{a, 2}, {b, 2}}, 4);
    const std::vector<Seat> survivors{first.seats[1], first.seats[2], first.seats[3]};
    CHECK(replan_around(job, Generation{2}, survivors, {first.seats[0]}, {{a, 1}, {b, 2}}, 4).seats.size() ==
          3);
    job.oversubscribe = true;
    CHECK(replan_around(job, Generation{2}, survivors, {first.seats[0]}, {{a, 1}, {b, 2}}, 4).seats.size() ==
          4);
  }
  TEST_CASE("whatever is lost: size as asked, no slot twice, ranks dense, survivors first and in order") {
    for (unsigned seed = 0; seed < 2000; ++seed) {
      std::mt19937 random(seed);
      auto job = job_of(1 + static_cast<int>(random() % 6));
      if (random() % 4 == 0) job.map_by = MapBy::host;
      std::vector<Room> rooms;
      int sum = 0;
      for (std::uint32_t i = 0; i < 1 + random() % 4; ++i) {
        rooms.push_back({HostIndex{i}, 1 + static_cast<int>(random() % 3), {}});
        sum += rooms.back().slots;
      }
      const int size = 1 + static_cast<int>(random() % static_cast<unsigned>(sum));
      const auto first = replan_all(job, Generation{1}, {}, rooms, size);
      std::vector<Seat> survivors, vacated;
      for (const auto& seat : first.seats) (random() % 2 == 0 ? survivors : vacated).push_back(seat);
      const int next = 1 + static_cast<int>(random() % static_cast<unsigned>(sum));
      const bool around = !survivors.empty() && random() % 2 == 0;
      const auto second = around ? replan_around(job, Generation{2}, survivors, vacated, rooms, next)
                                 : replan_all(job, Generation{2}, first.seats, rooms, next);
      INFO("seed ", seed);
      REQUIRE(static_cast<int>(second.seats.size()) == next);
      std::set<std::pair<HostIndex, std::uint32_t>> taken;
      for (std::size_t i = 0; i < second.seats.size(); ++i) {
        const auto& seat = second.seats[i];
        CHECK(seat.rank.value == i);
        CHECK(taken.insert({seat.host, seat.slot}).second);
        if (!around || i >= survivors.size()) continue;
        CHECK(seat.host == survivors[i].host);
        CHECK(seat.slot == survivors[i].slot);
      }
      std::map<HostIndex, int> used;
      for (const auto& seat : second.seats) ++used[seat.host];
      for (const auto& room : rooms) CHECK(used[room.host] <= room.slots);
    }
  }
}
