#include "launcher/core/placement.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace trainrun::core {
namespace {

JobSpec job_on(std::vector<Host> hosts, std::vector<int> counts = {0}) {
  JobSpec job;
  job.hosts.hosts = std::move(hosts);
  for (const int np : counts) job.programs.push_back(Program{{"./train"}, np, "/work"});
  return job;
}

Host host(std::string name, int slots) {
  return {.name = std::move(name), .slots = slots, .slots_given = true};
}

// "host:local_rank" of each rank in order.
std::string shown(const JobSpec& job, const Result<Placement>& placement) {
  if (!placement) return "error: " + placement.error().message;
  std::string out;
  for (const auto& seat : placement->seats) {
    out += fmt::format("{}{}:{}", out.empty() ? "" : " ", job.hosts.hosts[seat.host.value].name,
                       seat.local_rank);
  }
  return out;
}

std::string placed(const JobSpec& job) { return shown(job, place(job, {1})); }

TEST_CASE("ranks fill hosts in order by default, and no more of them than -np asks") {
  CHECK(placed(job_on({host("a", 2), host("b", 2)}, {4})) == "a:0 a:1 b:0 b:1");
  CHECK(placed(job_on({host("a", 2), host("b", 2)}, {2})) == "a:0 a:1");
  CHECK(placed(job_on({host("b", 1), host("a", 2)}, {3})) == "b:0 a:0 a:1");
  CHECK(placed(job_on({host("a", 4)}, {2})) == "a:0 a:1");
}

TEST_CASE("without a count all slots are taken") {
  CHECK(placed(job_on({host("a", 2), host("b", 1)})) == "a:0 a:1 b:0");
}

TEST_CASE("the numbers of a rank are those of Horovod and torchelastic") {
  struct Row {
    std::vector<Host> hosts;
    int np;
    std::vector<Seat> seats;
    std::uint32_t groups;
  };
  const Row table[] = {
      {{host("w0", 2), host("w1", 2)},
       4,
       {{{0}, {0}, 0, 2, 0, 0, 2, 0},
        {{1}, {0}, 1, 2, 0, 0, 2, 0},
        {{2}, {1}, 0, 2, 1, 1, 2, 0},
        {{3}, {1}, 1, 2, 1, 1, 2, 0}},
       2},
      {{host("w0", 2), host("w1", 2)}, 2, {{{0}, {0}, 0, 2, 0, 0, 1, 0}, {{1}, {0}, 1, 2, 0, 0, 1, 0}}, 1},
      {{host("w0", 1), host("w1", 2)},
       3,
       {{{0}, {0}, 0, 1, 0, 0, 2, 0}, {{1}, {1}, 0, 2, 1, 1, 2, 0}, {{2}, {1}, 1, 2, 1, 0, 1, 0}},
       2},
  };
  for (const auto& row : table) {
    const auto placement = place(job_on(row.hosts, {row.np}), {7});
    REQUIRE(placement.has_value());
    auto seats = row.seats;
    for (auto& seat : seats) seat.slot = seat.local_rank;
    CHECK(placement->seats == seats);
    CHECK(placement->groups == row.groups);
    CHECK(placement->generation == Generation{7});
  }
}

TEST_CASE("map-by host gives one rank to each host in turn, while it has slots") {
  auto job = job_on({host("a", 3), host("b", 1), host("c", 2)}, {6});
  job.map_by = MapBy::host;
  CHECK(placed(job) == "a:0 b:0 c:0 a:1 c:1 a:2");
  job.programs[0].np = 2;
  CHECK(placed(job) == "a:0 b:0");
  const auto placement = place(job, {1});
  CHECK(placement->groups == 2);
  CHECK(placement->seats[1].cross_rank == 1);
}

TEST_CASE(
    "the places of a mapping are numbered host by host or in turn, those of each program by themselves") {
  auto job = job_on({host("a", 3), host("b", 1), host("c", 2)}, {6});
  job.rank_by = RankBy::host;
  CHECK(placed(job) == "a:0 b:0 c:0 a:1 c:1 a:2");
  job.rank_by = RankBy::slot;
  job.map_by = MapBy::host;
  CHECK(placed(job) == "a:0 a:1 a:2 b:0 c:0 c:1");
  job.programs[0].np = 4;
  CHECK(placed(job) == "a:0 a:1 b:0 c:0");
  auto two = job_on({host("a", 2), host("b", 2)}, {3, 1});
  two.rank_by = RankBy::host;
  CHECK(placed(two) == "a:0 b:0 a:1 b:1");
  two.rank_file = {{0, {}}, {1, {}}, {0, {}}, {0, {}}};
  two.rank_by = RankBy::slot;
  CHECK(placed(two) == "a:0 a:1 b:0 a:2");
}

TEST_CASE("a rank file says where each rank sits, whatever slots its host has") {
  auto job = job_on({host("a", 1), host("b", 1)}, {3});
  job.rank_file = {{1, {}}, {0, {}}, {1, {}}, {1, {}}};
  CHECK(placed(job) == "b:0 a:0 b:1");
  CHECK(place(job, {1})->seats[0].local_size == 2);
  job.programs[0].np = 0;
  CHECK(placed(job) == "b:0 a:0 b:1 b:2");
  job.programs[0].np = 5;
  CHECK(placed(job) == "error: -np 5 needs 5 ranks, and the rank file has lines for 4");
}

TEST_CASE("ppr gives N ranks to each host, and is its slots where nobody wrote a count") {
  auto job = job_on({host("a", 4), host("b", 4), host("c", 4)});
  job.map_by = MapBy::ppr;
  job.ppr = 2;
  CHECK(placed(job) == "a:0 a:1 b:0 b:1 c:0 c:1");
  job.programs[0].np = 3;
  CHECK(placed(job) == "a:0 a:1 b:0");
  CHECK(placed([] {
          auto bare = job_on({{.name = "a"}, {.name = "b"}});
          bare.map_by = MapBy::ppr;
          bare.ppr = 2;
          return bare;
        }()) == "a:0 a:1 b:0 b:1");
}

TEST_CASE("ppr beyond the written slots or beyond -np is an error that counts") {
  auto job = job_on({host("a", 4), host("b", 1)});
  job.map_by = MapBy::ppr;
  job.ppr = 2;
  CHECK(placed(job) == "error: 2 ranks on b, which has 1 slot");
  CHECK(place(job, {1}).error().hint == "write b:2, or add --oversubscribe");
  job.oversubscribe = true;
  CHECK(placed(job) == "a:0 a:1 b:0 b:1");
  job.programs[0].np = 5;
  CHECK(placed(job) == "error: -np 5 needs 5 ranks, and 2 a host on 2 hosts make 4");
}

TEST_CASE("a limit of ranks a host also holds when hosts take turns") {
  auto job = job_on({host("a", 4), host("b", 4)}, {3});
  job.map_by = MapBy::host;
  job.ppr = 2;
  CHECK(placed(job) == "a:0 b:0 a:1");
}

TEST_CASE("oversubscribing fills the slots, then spreads the rest evenly") {
  auto job = job_on({host("a", 3), host("b", 1)}, {7});
  job.oversubscribe = true;
  CHECK(placed(job) == "a:0 a:1 a:2 a:3 a:4 b:0 b:1");
  job.map_by = MapBy::host;
  CHECK(placed(job) == "a:0 b:0 a:1 b:1 a:2 a:3 a:4");
  job.programs[0].np = 2;
  job.map_by = MapBy::slot;
  CHECK(placed(job) == "a:0 a:1");
}

TEST_CASE("too few slots is an error that says what to write") {
  const auto in_file = [](std::vector<Host> hosts, int np) {
    auto job = job_on(std::move(hosts), {np});
    job.slots_from = "hf";
    return job;
  };
  struct Row {
    JobSpec job;
    const char *message, *hint;
  };
  std::vector<Host> many;
  for (int i = 0; i < 9; ++i) many.push_back(host(fmt::format("n{}", i), 1));
  const Row table[] = {
      {job_on({host("a", 4), host("b", 4)}, {9}), "-np 9 needs 9 slots, the hosts have 8: a 4, b 4",
       "write -H a:5,b:4, or add --oversubscribe"},
      {job_on({host("a", 1)}, {2}), "-np 2 needs 2 slots, the host has 1",
       "write -H a:2, or add --oversubscribe"},
      {job_on({host("a", 4), host("b", 4)}, {5, 4}),
       "the 2 programs need 9 slots, the hosts have 8: a 4, b 4", "write -H a:5,b:4, or add --oversubscribe"},
      {job_on({{.name = "a"}, {.name = "fd00::1", .user = "bob"}}, {4}),
       "-np 4 needs 4 slots, the hosts have 2: a 1, fd00::1 1 (no count was given for a: it has 1)",
       "write -H a:2,bob@[fd00::1]:2, or add --oversubscribe"},
      {in_file({host("a", 4), host("b", 4)}, 10), "-np 10 needs 10 slots, the hosts have 8: a 4, b 4",
       "write slots=5 for a, slots=5 for b in hf, or add --oversubscribe"},
      {in_file({host("a", 2), host("b", 4)}, 7), "-np 7 needs 7 slots, the hosts have 6: a 2, b 4",
       "write slots=3 for a in hf, or add --oversubscribe"},
      {in_file(many, 10), "-np 10 needs 10 slots, the hosts have 9",
       "give the hosts of hf more slots, or add --oversubscribe"},
      {job_on(many, {10}), "-np 10 needs 10 slots, the hosts have 9",
       "give the hosts more slots (name:slots), or add --oversubscribe"},
  };
  for (const auto& row : table) {
    const auto placement = place(row.job, {1});
    REQUIRE_FALSE(placement.has_value());
    CHECK(placement.error().code == Code::usage);
    CHECK(placement.error().message == row.message);
    CHECK(placement.error().hint == row.hint);
  }
}

TEST_CASE("the programs of one line share a world and take ranks in order") {
  const auto placement = place(job_on({host("a", 2), host("b", 2)}, {1, 2, 1}), {1});
  REQUIRE(placement.has_value());
  std::vector<std::size_t> programs;
  for (const auto& seat : placement->seats) programs.push_back(seat.program);
  CHECK(programs == std::vector<std::size_t>{0, 1, 1, 2});
}

TEST_CASE("a job that cannot be placed at all says why") {
  CHECK(placed(job_on({}, {1})) == "error: there is no host to run on");
  CHECK(placed(job_on({host("a", 1)}, {})) == "error: there is no program to run");
  CHECK(placed(job_on({host("a", 2)}, {1, 0})) == "error: with several programs each needs its own count");
  CHECK(placed(job_on({host("a", 2)}, {-1})) == "error: with several programs each needs its own count");
  auto crowded = job_on({host("a", 1)}, {1 << 21});
  crowded.oversubscribe = true;
  CHECK(placed(crowded) == "error: more than 1048576 ranks");
}

TEST_CASE("whatever the hosts and flags, ranks are dense, slots are used once and the order of hosts holds") {
  std::mt19937 random(1);  // fixed: a failure repeats
  for (int round = 0; round < 3000; ++round) {
    std::vector<Host> hosts;
    std::uint32_t slots = 0;
    for (auto count = 1 + random() % 6; count > 0; --count) {
      hosts.push_back(host(fmt::format("h{}", hosts.size()), 1 + static_cast<int>(random() % 5)));
      slots += static_cast<std::uint32_t>(hosts.back().slots);
    }
    auto job = job_on(hosts, {static_cast<int>(1 + random() % 20)});
    job.map_by = random() % 2 == 0 ? MapBy::slot : MapBy::host;
    job.oversubscribe = random() % 3 == 0;
    const auto np = static_cast<std::uint32_t>(job.programs[0].np);
    const auto placement = place(job, {1});
    CAPTURE(round);
    CHECK(placement.has_value() == (job.oversubscribe || np <= slots));
    if (!placement) continue;

    REQUIRE(placement->seats.size() == np);
    std::map<std::uint32_t, std::vector<std::uint32_t>> locals;  // host -> local ranks in rank order
    for (std::uint32_t i = 0; i < np; ++i) {
      const auto& seat = placement->seats[i];
      CHECK(seat.rank.value == i);
      locals[seat.host.value].push_back(seat.local_rank);
      if (job.map_by == MapBy::slot && i > 0) CHECK(placement->seats[i - 1].host <= seat.host);
    }
    CHECK(placement->groups == locals.size());
    CHECK(locals.rbegin()->first == locals.size() - 1);  // no host is passed over
    for (const auto& [index, ranks] : locals) {
      for (std::uint32_t i = 0; i < ranks.size(); ++i) CHECK(ranks[i] == i);
      if (!job.oversubscribe || np <= slots)
        CHECK(ranks.size() <= static_cast<std::size_t>(hosts[index].slots));
    }
    for (const auto& seat : placement->seats) {
      CHECK(seat.local_size == locals[seat.host.value].size());
      CHECK(seat.group_rank ==
            static_cast<std::uint32_t>(std::distance(locals.begin(), locals.find(seat.host.value))));
      const auto peers = std::count_if(locals.begin(), locals.end(), [&](const auto& other) {
        return other.second.size() > seat.local_rank;
      });
      CHECK(seat.cross_size == static_cast<std::uint32_t>(peers));
      CHECK(seat.cross_rank < seat.cross_size);
    }
  }
}

}  // namespace
}  // namespace trainrun::core
