// Blobs, barriers, NCCL ids, limits.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include "rendezvous/protocol.h"
#include "tests/unit/rendezvous/scene.h"

using namespace trainrun;
using namespace trainrun::rendezvous;

TEST_CASE("a value that was put can be read, replaced and missed") {
  Scene scene(1);
  scene.ask(5, Get{"k"});
  CHECK(scene.only_a<Failure>(5).kind == FailureKind::not_found);
  scene.ask(5, Put{"k", "v"});
  scene.only_a<Done>(5);
  scene.ask(5, Put{"k", "w"});
  scene.only_a<Done>(5);
  scene.ask(5, Get{"k"});
  CHECK(scene.only_a<Values>(5).values == std::vector<std::string>{"w"});
}

TEST_CASE("a wait is answered with all values in the order asked for, when the last of them is put") {
  Scene scene(1);
  scene.ask(5, Wait{{"b", "a", "b"}, 1000});
  scene.ask(6, Put{"a", "1"});
  CHECK(scene.silent(5));
  scene.ask(6, Put{"a", "2"});
  CHECK(scene.silent(5));
  scene.ask(6, Put{"b", "3"});
  CHECK(scene.only_a<Values>(5).values == std::vector<std::string>{"3", "2", "3"});
  CHECK_FALSE(scene.table.next_deadline());
}

TEST_CASE("a wait in vain names the keys") {
  Scene scene(1);
  scene.ask(6, Put{"a", "1"});
  scene.ask(5, Wait{{"a", "b"}, 100});
  scene.pass(milliseconds(100));
  const auto failure = scene.only_a<Failure>(5);
  CHECK(failure.kind == FailureKind::timeout);
  CHECK(failure.message == "nobody has put 'b'");
}

TEST_CASE("compare-and-set lets exactly one of several win") {
  Scene scene(1);
  scene.ask(5, CompareAndSet{"leader", {}, "five"});
  CHECK(scene.only_a<Swapped>(5).swapped);
  scene.ask(6, CompareAndSet{"leader", {}, "six"});
  const auto lost = scene.only_a<Swapped>(6);
  CHECK_FALSE(lost.swapped);
  CHECK(lost.current == "five");
  scene.ask(6, CompareAndSet{"leader", "five", "six"});
  CHECK(scene.only_a<Swapped>(6).current == "six");
  scene.ask(6, CompareAndSet{"other", "five", "six"});
  const auto absent = scene.only_a<Swapped>(6);
  CHECK_FALSE(absent.swapped);
  CHECK_FALSE(absent.current);
}

TEST_CASE("a compare-and-set wakes those who wait for the key") {
  Scene scene(1);
  scene.ask(5, Wait{{"leader"}, 1000});
  scene.ask(6, CompareAndSet{"leader", {}, "six"});
  CHECK(scene.only_a<Values>(5).values == std::vector<std::string>{"six"});
}

TEST_CASE("a gather answers everybody at once, in the order of the ranks") {
  Scene scene(12);
  scene.join_all(12);
  for (std::uint32_t rank = 11; rank > 0; --rank) {
    scene.ask(rank, Put{fmt::format("addr/{}", rank), std::to_string(rank)});
    scene.only_a<Done>(rank);
    scene.ask(rank, Gather{"addr/", 12, 1000});
    CHECK(scene.silent(rank));
  }
  scene.ask(0, Put{"addr/0", "0"});
  scene.only_a<Done>(0);
  scene.ask(0, Gather{"addr/", 12, 1000});
  for (std::uint32_t rank = 0; rank < 12; ++rank) {
    const auto values = scene.only_a<Values>(rank).values;
    REQUIRE(values.size() == 12);
    CHECK(values[10] == "10");
  }
}

TEST_CASE("a gather in vain names the ranks that put nothing") {
  Scene scene(3);
  scene.join_all(3);
  scene.ask(1, Put{"addr/1", "x"});
  scene.only_a<Done>(1);
  scene.ask(1, Gather{"addr/", 3, 100});
  scene.ask(0, Gather{"addr/", 3, 200});
  scene.pass(milliseconds(100));
  CHECK(scene.only_a<Failure>(1).missing == Ranks{0, 2});
  CHECK(scene.silent(0));
  scene.pass(milliseconds(100));
  CHECK(scene.only_a<Failure>(0).missing == Ranks{0, 2});
}

TEST_CASE("a barrier opens when all are in it, and can be used again") {
  Scene scene(2);
  scene.join_all(2);
  for (int round = 0; round < 2; ++round) {
    scene.ask(0, Barrier{"b", {}, 1000});
    CHECK(scene.silent(0));
    scene.ask(1, Barrier{"b", {}, 1000});
    scene.only_a<Done>(0);
    scene.only_a<Done>(1);
  }
}

TEST_CASE("a barrier in vain names who did not come, and a part of the world has barriers of its own") {
  Scene scene(4);
  scene.join_all(4);
  scene.ask(1, Barrier{"b", {1, 3}, 100});
  scene.ask(0, Barrier{"b", {}, 100});
  CHECK(scene.only_a<Failure>(0).kind == FailureKind::invalid);  // other ranks under the same name
  scene.ask(2, Barrier{"b", {1, 3}, 100});
  CHECK(scene.only_a<Failure>(2).kind == FailureKind::invalid);  // not one of them
  scene.pass(milliseconds(100));
  const auto failure = scene.only_a<Failure>(1);
  CHECK(failure.kind == FailureKind::timeout);
  CHECK(failure.missing == Ranks{3});
  CHECK(scene.silent(3));
  CHECK(failure.message == "barrier 'b': rank 3 on h did not come");
}

TEST_CASE("all who are in a barrier hear the same names when the time of the first has passed") {
  Scene scene(3);
  scene.join_all(3);
  scene.ask(0, Barrier{"b", {}, 100});
  scene.ask(1, Barrier{"b", {}, 5000});
  scene.pass(milliseconds(100));
  CHECK(scene.only_a<Failure>(0).missing == Ranks{2});
  CHECK(scene.only_a<Failure>(1).missing == Ranks{2});
  CHECK_FALSE(scene.table.next_deadline());
  for (const std::uint32_t rank : {2u, 1u, 0u}) scene.ask(rank, Barrier{"b", {}, 100});
  for (const std::uint32_t rank : {0u, 1u, 2u}) scene.only_a<Done>(rank);
}

TEST_CASE("a barrier fails at once when a member that it needs leaves or has left") {
  Scene scene(2);
  scene.join_all(2);
  scene.ask(0, Barrier{"b", {}, 1000});
  scene.ask(1, Leave{});
  const auto failure = scene.only_a<Failure>(0);
  CHECK(failure.kind == FailureKind::left);
  CHECK(failure.missing == Ranks{1});
  scene.ask(0, Barrier{"c", {}, 1000});
  CHECK(scene.only_a<Failure>(0).kind == FailureKind::left);
}

TEST_CASE("NCCL ids go from the group's first rank to all others, one for each started 128 ranks") {
  for (const std::uint32_t size : {1u, 128u, 129u, 256u}) {
    Scene scene(size);
    scene.join_all(size);
    Ranks ranks;
    for (std::uint32_t rank = 0; rank < size; ++rank) ranks.push_back(rank);
    const auto count = nccl_id_count(size);
    std::vector<std::string> ids;
    for (std::uint32_t i = 0; i < count; ++i) ids.emplace_back(nccl_id_size, static_cast<char>('a' + i));
    for (std::uint32_t rank = 1; rank < size; ++rank) scene.ask(rank, FetchIds{"world", 0, size, 1000});
    auto too_many = ids;
    too_many.push_back(ids.front());
    scene.ask(0, PublishIds{"world", ranks, too_many});
    CHECK(scene.only_a<Failure>(0).kind == FailureKind::invalid);
    scene.ask(0, PublishIds{"world", ranks, ids});
    scene.only_a<Done>(0);
    for (std::uint32_t rank = 1; rank < size; ++rank) CHECK(scene.only_a<Values>(rank).values == ids);
    scene.ask(0, Get{"nccl/1/world/0"});
    CHECK(scene.only_a<Values>(0).values.front() == ids.front());
  }
}

TEST_CASE("NCCL ids are published once, by the first rank, under a name of their own") {
  Scene scene(3);
  scene.join_all(3);
  const std::vector<std::string> ids{std::string(nccl_id_size, 'x')};
  scene.ask(1, PublishIds{"g", {0, 1}, ids});
  CHECK(scene.only_a<Failure>(1).kind == FailureKind::invalid);
  scene.ask(1, PublishIds{"g", {1, 2}, {"short"}});
  CHECK(scene.only_a<Failure>(1).kind == FailureKind::invalid);
  scene.ask(1, PublishIds{"g", {1, 2}, ids});
  scene.only_a<Done>(1);
  scene.ask(1, PublishIds{"g", {1, 2}, ids});
  CHECK(scene.only_a<Failure>(1).kind == FailureKind::exists);
  scene.ask(1, Put{"nccl/1/g/0", "forged"});
  CHECK(scene.only_a<Failure>(1).kind == FailureKind::invalid);
}

TEST_CASE("a wait for NCCL ids in vain names the rank that owes them") {
  Scene scene(2);
  scene.join_all(2);
  scene.ask(1, FetchIds{"world", 0, 2, 100});
  scene.pass(milliseconds(100));
  const auto failure = scene.only_a<Failure>(1);
  CHECK(failure.missing == Ranks{0});
  CHECK(failure.message == "rank 0 on h, the first of group 'world', has not published its NCCL ids");
}

TEST_CASE("sizes and numbers above the limits are refused") {
  Scene scene(1);
  const auto refused = [&](auto body) {
    scene.ask(5, std::move(body));
    const auto failure = scene.only_a<Failure>(5);
    CHECK(failure.kind == FailureKind::limit);
  };
  refused(Put{"", "v"});
  refused(Put{std::string(max_key + 1, 'k'), "v"});
  refused(Put{"k", std::string(max_value + 1, 'v')});
  refused(Get{std::string(max_key + 1, 'k')});
  refused(Wait{{}, 1});
  refused(Wait{std::vector<std::string>(max_wait_keys + 1, "k"), 1});
  refused(Gather{"p", 0, 1});
  refused(Gather{"p", max_world + 1, 1});
  refused(Barrier{std::string(max_name + 1, 'b'), {}, 1});
  refused(Join{0, std::string(max_name + 1, 'h'), "", 1});
  refused(CompareAndSet{"k", std::string(max_value + 1, 'v'), "w"});
  refused(Gather{std::string(max_prefix + 1, 'p'), 1, 1});
  refused(PublishIds{std::string(max_name + 1, 'g'), {0}, {}});
  refused(FetchIds{std::string(max_name + 1, 'g'), 0, 1, 1});
}

TEST_CASE("the store and the waits of one connection are bounded") {
  Scene scene(1);
  SUBCASE("bytes") {
    for (std::size_t i = 0; i < max_store / max_value; ++i) {
      scene.ask(5, Put{fmt::format("{}", i), std::string(max_value, 'v')});
      if (i + 1 < max_store / max_value)
        scene.only_a<Done>(5);
      else
        CHECK(scene.only_a<Failure>(5).kind == FailureKind::limit);  // the keys count as well
    }
    scene.ask(5, Gather{"", 17, 1});  // 17 MiB in one reply
    CHECK(scene.only_a<Failure>(5).kind == FailureKind::limit);
  }
  SUBCASE("keys that are waited for") {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < max_wait_keys; ++i) keys.push_back(fmt::format("{:01024}", i));
    for (std::size_t i = 0; i < max_wanted / max_key / max_wait_keys; ++i) scene.ask(5, Wait{keys, 1000});
    CHECK(scene.silent(5));
    scene.ask(5, Wait{{"k"}, 1000});
    CHECK(scene.only_a<Failure>(5).kind == FailureKind::limit);
    scene.ask(6, Wait{{"k"}, 1000});
    CHECK(scene.silent(6));
  }
  SUBCASE("waits") {
    for (std::size_t i = 0; i < max_waits; ++i) scene.ask(5, Watch{1000});
    CHECK(scene.silent(5));
    scene.ask(5, Watch{1000});
    CHECK(scene.only_a<Failure>(5).kind == FailureKind::limit);
    scene.take(scene.table.closed(5, scene.now));
    CHECK_FALSE(scene.table.next_deadline());
  }
}

TEST_CASE(
    "gathers of one prefix and several counts, of lists of keys among them, each end with their last key") {
  Scene scene(1);
  scene.ask(10, Gather{"a1", 3, 1000});  // a10 a11 a12
  scene.ask(11, Gather{"a", 13, 1000});  // a0 ... a12
  scene.ask(12, Gather{"a", 13, 1000});
  scene.ask(13, Gather{"a", 2, 1000});  // a0 a1
  scene.ask(14, Wait{{"a12", "a1", "a12"}, 1000});
  const auto put = [&](const std::string& key) {
    scene.ask(5, Put{key, "v" + key});
    scene.only_a<Done>(5);
  };
  for (const auto* key : {"a010", "a13", "a", "b1", "a10", "a10", "a11"}) put(key);
  for (std::uint32_t c = 10; c < 15; ++c) CHECK(scene.silent(c));
  put("a12");
  CHECK(scene.only_a<Values>(10).values == std::vector<std::string>{"va10", "va11", "va12"});
  put("a1");
  CHECK(scene.only_a<Values>(14).values == std::vector<std::string>{"va12", "va1", "va12"});
  put("a0");
  CHECK(scene.only_a<Values>(13).values == std::vector<std::string>{"va0", "va1"});
  scene.take(scene.table.closed(12, scene.now));
  for (int i = 2; i < 10; ++i) {
    CHECK(scene.silent(11));
    put(fmt::format("a{}", i));
  }
  CHECK(scene.only_a<Values>(11).values.size() == 13);
  CHECK(scene.silent(12));
  CHECK_FALSE(scene.table.next_deadline());
}

TEST_CASE("a fetch of ids from a group that can never be published is refused at once") {
  Scene scene(2);
  for (const auto* group : {"a/b", ""}) {
    scene.ask(5, FetchIds{group, 0, 2, 1000});
    CHECK(scene.only_a<Failure>(5).kind == FailureKind::invalid);
  }
}

TEST_CASE("gathers of many long keys are held as what was asked, not as the keys") {
  Scene scene(1);
  const auto peak = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const auto before = peak();
  for (std::uint32_t i = 0; i < 64; ++i)
    scene.ask(i / 16, Gather{fmt::format("{:0{}}", i, max_prefix), 16384, 1000});
  for (std::uint32_t c = 0; c < 4; ++c) CHECK(scene.silent(c));
  CHECK(peak() - before < 1024 * 1024);  // written out they are 2 GiB
}
