#include "comm/group_making.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <utility>

namespace trainrun::comm {
namespace {

// Who makes what, and who has come where.
struct Job {
  std::map<std::uint32_t, Making> making{};
  std::set<std::pair<std::uint32_t, std::string>> come{};
  std::size_t of_members = 100, further = 100;

  void makes(std::uint32_t rank, std::string name, std::vector<std::uint32_t> ranks) {
    come.insert({rank, name});
    making[rank] = {std::move(name), std::move(ranks)};
  }
  [[nodiscard]] Questions questions(std::size_t members, std::size_t others) const {
    return {[this](std::uint32_t rank) {
              const auto found = making.find(rank);
              return found == making.end() ? std::nullopt : std::optional(found->second);
            },
            [this](std::uint32_t rank, const Making& of) {
              return come.contains({rank, of.name});
            },
            members, others};
  }
  [[nodiscard]] std::vector<std::uint32_t> ring_of(std::uint32_t rank, std::size_t from = 0) const {
    std::vector<std::uint32_t> ranks;
    for (const auto& each : find_ring({rank, making.at(rank)}, from, questions(of_members, further)))
      ranks.push_back(each.rank);
    return ranks;
  }
};

using Ranks = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("a group's list is read as it was written, and nothing else is") {
  const auto read = making_of("1f-3-2", list_of({"1f-3-2", {0, 5, 70000}}));
  REQUIRE(read);
  CHECK(read->name == "1f-3-2");
  CHECK(read->ranks == Ranks{0, 5, 70000});
  for (const char* text : {"", "1,x", "1,,2", "99999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(making_of("name", text));
  }
}

TEST_CASE("a ring of two, of three, of four, and one that the others lead to") {
  Job job;
  job.makes(4, "a", {4, 7});
  job.makes(7, "b", {2, 4, 7});
  CHECK(job.ring_of(4) == Ranks{4, 7});
  CHECK(job.ring_of(7) == Ranks{4, 7});
  job = {};
  job.makes(0, "a", {0, 1});
  job.makes(1, "b", {1, 2});
  job.makes(2, "c", {0, 2});
  for (const std::uint32_t rank : {0, 1, 2}) CHECK(job.ring_of(rank) == Ranks{0, 1, 2});
  CHECK(words_of({{0, job.making[0]}, {1, job.making[1]}}) ==
        "rank 0 makes a group of ranks 0-1, rank 1 makes a group of ranks 1-2: each waits for the other");
  job.makes(2, "c", {2, 3});
  job.makes(3, "d", {0, 3});
  job.makes(9, "e", {0, 9});  // waits for a ring that it is not in
  for (const std::uint32_t rank : {0, 1, 2, 3}) CHECK(job.ring_of(rank) == Ranks{0, 1, 2, 3});
  CHECK(job.ring_of(9).empty());
  job = {};
  job.makes(0, "a", {0, 1, 2});
  job.makes(1, "b", {1, 9});  // leads nowhere
  job.makes(2, "c", {2, 3});
  job.makes(3, "d", {0, 3});
  CHECK(job.ring_of(0) == Ranks{0, 2, 3});
}

TEST_CASE("whoever has come, makes the same group, or waits for nothing is in no ring") {
  Job job;
  job.makes(0, "a", {0, 1, 2});
  job.makes(1, "a", {0, 1, 2});
  CHECK(job.ring_of(0).empty());  // rank 2 computes
  job.makes(2, "b", {0, 2});
  CHECK(job.ring_of(0) == Ranks{0, 2});
  job.come.insert({0, "b"});  // on another thread
  CHECK(job.ring_of(0).empty());
  job.come.erase({0, "b"});
  job.come.insert({2, "a"});
  CHECK(job.ring_of(0).empty());
}

TEST_CASE("no more is asked than allowed, and who was not asked about is the next time") {
  Job job;
  std::vector<std::uint32_t> all;
  for (std::uint32_t rank = 0; rank < 50; ++rank) all.push_back(rank);
  for (std::uint32_t rank = 0; rank < 48; ++rank) job.makes(rank, "all", all);
  job.makes(48, "three", {0, 48});
  job.makes(49, "two", {48, 49});
  job.of_members = 20;
  CHECK(job.ring_of(0, 0).empty());
  CHECK(job.ring_of(0, 20).empty());
  CHECK(job.ring_of(0, 40) == Ranks{0, 48});
  job.of_members = 1;
  CHECK(job.ring_of(0, 49) == Ranks{0, 49, 48});
  job.further = 0;
  CHECK(job.ring_of(0, 49).empty());
}

TEST_CASE("a ring is one when two looks have found it, in a group of any size, wherever its ranks are") {
  for (const std::uint32_t size : {2, 31, 32, 62, 64, 65, 100}) {
    for (const std::uint32_t last : {1U, size / 2, size - 1}) {
      CAPTURE(size);
      CAPTURE(last);
      Job job;
      std::vector<std::uint32_t> all;
      for (std::uint32_t rank = 0; rank < size; ++rank) all.push_back(rank);
      for (std::uint32_t rank = 0; rank < size; ++rank)
        if (rank != last) job.makes(rank, "all", all);
      job.makes(last, "two", {0, last, size});
      RingWatch rings({0, job.making[0]}, job.questions(32, 32));
      std::vector<Waiting> ring;
      int looks = 0;
      for (; ring.empty() && looks < 10; ++looks) ring = rings.look();
      CHECK(ranks_in(ring) == Ranks{0, last});
      CHECK(looks >= 2);
      // One that has gone meanwhile was none.
      RingWatch others({0, job.making[0]}, job.questions(32, 32));
      for (int look = 0; look < looks - 1; ++look) CHECK(others.look().empty());
      job.come.insert({last, "all"});
      CHECK(others.look().empty());
      job.come.erase({last, "all"});
      CHECK(others.look().empty());
    }
  }
}

}  // namespace trainrun::comm
