// Ranks of several hosts, as many on each: the grid, what they do when they disagree, and how they end.
#include "comm/backends/hier/host_grid.h"
#include "tests/unit/comm/backends/ranks.h"
#include "tests/unit/comm/job.h"

using namespace trainrun;
using namespace trainrun::comm;

namespace {

using Hosts = std::vector<std::string>;
using Numbers = std::vector<std::uint32_t>;

// Every rank must hear of the mismatch, and of a pair that does differ.
void try_mismatch(const std::function<Outcome<void>(Group&, bool odd)>& work) {
  for (const bool in_turn : {false, true})
    for (int odd = 0; odd < 4; ++odd) {
      CAPTURE(in_turn);
      CAPTURE(odd);
      Ranks ranks(hier_backends(hosts_for(2, 2, in_turn)));
      for (const auto& one : ranks.all([&](Group&group, int rank) { return work(group, rank == odd); })) {
        REQUIRE_FALSE(one);
        CHECK_MESSAGE(one.error().status == TRC_MISMATCH, one.error().message);
        CHECK_MESSAGE(one.error().message.find(fmt::format("rank {} called ", odd)) != std::string::npos,
                      one.error().message);
      }
    }
}

}  // namespace

TEST_CASE("a grid has a row for each host, whatever the order of the ranks") {
  const Hosts hosts{"b", "a", "b", "a", "c", "c"};
  const auto grid = grid_of(hosts, 3);
  REQUIRE(grid);
  CHECK(grid->hosts == 3);
  CHECK(grid->locals == 2);
  CHECK(grid->host == 1);
  CHECK(grid->local == 1);
  CHECK(grid->ranks == Numbers{0, 2, 1, 3, 4, 5});
  CHECK(grid->on_host() == Numbers{1, 3});
  CHECK(grid->across() == Numbers{2, 3, 5});
}

TEST_CASE(
    "there is no grid on one host, with one rank a host, or with more ranks on one host than on another") {
  for (const auto& hosts :
       std::vector<Hosts>{{"a", "a"}, {"a", "b"}, {"a", "a", "b"}, {"a", "b", "b", "a", "a"}})
    CHECK_FALSE(grid_of(hosts, 0));
}

TEST_CASE("an abort ends what each rank gives to each, on all hosts") {
  // The last is in another mesh, so nobody gets anything from it, or it from them, once they have agreed.
  auto flat = over_gloo(4), other = over_gloo(4);
  std::swap(flat[3], other[3]);
  Ranks ranks(hier_backends(hosts_for(2, 2), std::move(flat)));
  std::array<std::vector<double>, 4> data;
  for (auto& each : data) each.resize(80'000);
  const auto ended = ranks.all(
      [&](Group& group, int rank) {
        auto& own = data[static_cast<std::size_t>(rank)];
        std::vector<double> out(own.size());
        return group.alltoall(own.data(), out.data(), own.size() / 4, TRC_F64);
      },
      [&](const auto& running) {
        CHECK(running[0].wait_for(milliseconds(500)) == std::future_status::timeout);
        ranks.abort();
      });
  for (const auto& one : ended) {
    REQUIRE_FALSE(one);
    CHECK(one.error().status == TRC_TRANSPORT);
  }
}

TEST_CASE("a rank that calls something else is named on all ranks of all hosts") {
  static double data[3][64];
  const std::uint64_t even_counts[] = {1, 2, 1, 1}, odd_counts[] = {2, 1, 1, 1};
  SUBCASE("another count") {
    try_mismatch(
        [](Group& g, bool odd) { return g.allreduce(data[0], data[1], odd ? 3 : 2, TRC_F64, TRC_SUM); });
  }
  SUBCASE("another root, which another rank's place on its host belongs to") {
    try_mismatch([](Group& g, bool odd) { return g.broadcast(data[0], 1, TRC_F64, odd ? 1 : 2); });
  }
  SUBCASE("an operation that goes another way") {
    try_mismatch([](Group& g, bool odd) {
      return odd ? g.alltoall(data[0], data[1], 1, TRC_F64) : g.allgather(data[0], data[1], 1, TRC_F64);
    });
  }
  SUBCASE("a large operation beside none") {
    static std::vector<double> large(100'001);  // of which something is left over on a host
    try_mismatch([](Group& g, bool odd) {
      return odd ? g.barrier() : g.allreduce(large.data(), large.data(), large.size(), TRC_F64, TRC_SUM);
    });
  }
  SUBCASE("a large operation beside a small one") {
    static std::vector<double> large(100'000);
    try_mismatch([](Group& g, bool odd) {
      return g.allreduce(large.data(), large.data(), odd ? 1 : large.size(), TRC_F64, TRC_SUM);
    });
  }
  SUBCASE("a large operation that gives each rank its own") {
    static std::vector<double> large(400'000);
    try_mismatch([](Group& g, bool odd) {
      return odd ? g.barrier() : g.reduce_scatter(large.data(), large.data(), 100'000, TRC_F64, TRC_SUM);
    });
    CHECK(large == std::vector<double>(400'000));
  }
  SUBCASE("other counts") {
    try_mismatch([&](Group& g, bool odd) {
      return g.allgatherv(data[0], data[1], odd ? odd_counts : even_counts, TRC_F64);
    });
  }
}

TEST_CASE("hosts whose own ranks agree, but not with those of the other, are told of ranks") {
  Ranks ranks(hier_backends(hosts_for(2, 2)));
  std::vector<double> large(100'000);
  for (const auto& one : ranks.all([&](Group&group, int rank) {
         std::vector<double> out(large.size());
         return rank < 2 ? group.barrier()
                         : group.allreduce(large.data(), out.data(), large.size(), TRC_F64, TRC_SUM);
       })) {
    REQUIRE_FALSE(one);
    CHECK(one.error().status == TRC_MISMATCH);
    for (const auto* const words : {"rank 0 called barrier", "rank 2 called allreduce"})
      CHECK_MESSAGE(one.error().message.find(words) != std::string::npos, one.error().message);
  }
}

TEST_CASE("what ranks called differently leaves all buffers as they were") {
  Ranks ranks(hier_backends(hosts_for(2, 2)));
  for (const std::size_t count : {20'000, 200'000}) {
    std::vector<std::vector<float>> out(4, std::vector<float>(count, 7));
    const std::vector<float> in(count, 1);
    ranks.all([&](Group& group, int rank) {
      return group.allreduce(in.data(), out[static_cast<std::size_t>(rank)].data(), in.size(), TRC_F32,
                             rank == 3 ? TRC_MAX : TRC_MEAN);
    });
    for (const auto& one : out) CHECK(one == std::vector<float>(count, 7));
  }
}

TEST_CASE("all ranks of a grid get the same bits") {
  Ranks ranks(hier_backends(hosts_for(2, 3)));
  for (const std::size_t count : {5, 70'001}) {
    std::vector<std::vector<float>> out(6, std::vector<float>(count));
    ranks.all_do([&](Group& group, int rank) {
      std::vector<float> in(count);
      for (std::size_t i = 0; i < count; ++i)
        in[i] = 1.0F / static_cast<float>(3 + rank + static_cast<int>(i % 97));
      return group.allreduce(in.data(), out[static_cast<std::size_t>(rank)].data(), count, TRC_F32, TRC_SUM);
    });
    for (const auto& one : out) CHECK(one == out.front());
  }
}

TEST_CASE("an abort ends an operation, whichever part of it waits") {
  for (const int silent : {0, 1, 3}) {
    auto backends = hier_backends(hosts_for(2, 2));
    std::vector<Backend*> views;
    for (const auto& backend : backends) views.push_back(backend.get());
    Ranks ranks(std::move(backends));
    std::atomic<int> ended = 0;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 4; ++rank)
      if (rank != silent)
        threads.emplace_back([&, rank] {
          CHECK_FALSE(ranks.at(rank).barrier());
          ++ended;
        });
    for (int rank = 0; rank < 4; ++rank)
      if (rank != silent) views[static_cast<std::size_t>(rank)]->abort();
    for (auto& thread : threads) thread.join();
    CHECK(ended == 3);
  }
}

TEST_CASE("who waits for its host's first rank hears what that one's connection broke of") {
  auto backends = hier_backends(hosts_for(2, 2));
  dynamic_cast<HierBackend&>(*backends[2]).across().abort();
  std::vector<std::thread> threads;
  std::array<std::string, 2> heard;
  for (const std::size_t rank : {0, 1})
    threads.emplace_back([&, rank] {
      Descriptor what;
      what.call = Call::barrier;
      const auto done = backends[rank]->perform(what, {}, far_away());
      heard[rank] = done ? "nothing" : done.error().text;
    });
  for (auto& thread : threads) thread.join();
  CHECK(heard[0] == heard[1]);
  CHECK_MESSAGE(heard[1].find("closed by peer") != std::string::npos, heard[1]);
}

TEST_CASE("ranks of hosts with as many ranks on each find each other by themselves") {
  Job job(4, "hier", "ops");
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CHECK(job.all(rank) == fmt::format("ok {} 4 local {} 2 over hier\n", rank, rank % 2));
    CHECK(job.exit_code(rank) == 0);
  }
}

TEST_CASE("ranks of hosts with more ranks on one of them use Gloo alone") {
  Job job(3, "hier", "ops");
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    CHECK(job.all(rank).find(" over gloo\n") != std::string::npos);
}

TEST_CASE("a rank of a grid that ends at any point of any operation is named by all others") {
  for (const std::string point : {"comm.come", "comm.wait", "comm.past"})
    for (const int passing : {1, 2, 3, 4, 7, 12, 31, 60}) {
      const bool kill = passing % 2 == 1;
      const auto fault = fmt::format("{}={}:{}", point, kill ? "kill" : "exit", passing);
      CAPTURE(fault);
      Job job(4, "hier", "all_operations", {}, "60", fault);
      for (const std::uint32_t rank : {0, 1, 2}) {
        const auto said = job.all(rank);
        CHECK_MESSAGE(said.find("failed PeerLost culprit 3 host host1 ") != std::string::npos, said);
        CHECK(job.exit_code(rank) == 3);
      }
      CHECK(job.exit_code(3) == (kill ? 128 + SIGKILL : 3));
    }
}

TEST_CASE("when a rank of a grid stops answering the others time out and name it") {
  Job job(4, "hier", "loop", {}, "2");
  for (std::uint32_t rank = 0; rank < 4; ++rank) job.printed(rank, "running");
  job.signal(1, SIGSTOP);
  for (const std::uint32_t rank : {0, 2, 3})
    CHECK_MESSAGE(job.all(rank).find("failed Timeout culprit 1 host host0 missing 1 ") != std::string::npos,
                  job.all(rank));
}

TEST_CASE("groups, sends and worlds of a grid leave no descriptor, thread or memory behind") {
  Job job(4, "hier", "leaks");
  for (std::uint32_t rank = 0; rank < 4; ++rank) CHECK(job.all(rank) == "nothing left\n");
}
