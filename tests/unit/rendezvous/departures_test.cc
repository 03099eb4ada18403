// How members go, and what the others are told: who has left, who died, whom an operation waits for.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "rendezvous/protocol.h"
#include "tests/unit/rendezvous/scene.h"

using namespace trainrun;
using namespace trainrun::rendezvous;

namespace {

// Three members of a described world at connections 0, 1, 2; their ears are 10, 11, 12.
struct Trio : Scene {
  Trio() : Scene(3, {"a", "b", "c"}) {
    join_all(3);
    for (std::uint32_t rank = 0; rank < 3; ++rank) ask(10 + rank, News{rank, 0, 60000});
  }
  void says(std::uint32_t rank, std::uint64_t sequence, bool in_operation,
            std::uint32_t group = Pulse::all_ranks) {
    ask(10 + rank, Pulse{rank, "allreduce", sequence, in_operation, group});
    told[10 + rank].clear();
  }
};

}  // namespace

TEST_CASE(
    "a rank that has left is told so when it joins again, whether or not the others have left as well") {
  Scene scene(2);
  scene.join_all(2);
  scene.ask(0, Leave{});
  const auto refused = [&scene] {
    scene.told.clear();
    scene.ask(5, Join{0, "h", "", 1000});
    return scene.only_a<Failure>(5);
  };
  const auto first = refused();
  CHECK(first.kind == FailureKind::invalid);
  CHECK(first.message == "rank 0 on h has left the world of generation 1 already; a rank meets it once");
  scene.ask(1, Leave{});
  REQUIRE(scene.table.verdict());
  CHECK(refused().kind == FailureKind::invalid);
  CHECK(refused().message == first.message);
  scene.told.clear();
  scene.ask(6, Join{9, "h", "", 1000});
  CHECK(scene.only_a<Failure>(6).kind == FailureKind::over);
}

TEST_CASE("of many places where ranks wait the first are named") {
  constexpr std::uint32_t size = 11;
  Scene scene(size, std::vector<std::string>(size, "a"));
  scene.join_all(size);
  std::vector<std::uint32_t> others;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    scene.ask(100 + rank, Pulse{rank, fmt::format("receive from rank {}", rank + 1), 1, true, 50 + rank});
    if (rank > 0) others.push_back(rank);
  }
  scene.ask(0, Abort{"it did not end", others});
  REQUIRE(scene.table.verdict());
  CHECK(scene.table.verdict()->how.starts_with(
      "it did not end: rank 0 on a waits in receive from rank 1 number 1; rank 1 on a waits in "));
  CHECK(scene.table.verdict()->how.ends_with(
      "; rank 7 on a waits in receive from rank 8 number 1; 3 more wait elsewhere"));
}

TEST_CASE("one whose process has ended well has left, whether its connection closes before that or after") {
  Trio scene;
  SUBCASE("before") {
    scene.take(scene.table.closed(0, scene.now));
    scene.take(scene.table.ended_well({1}, {0}));
  }
  SUBCASE("after") {
    scene.take(scene.table.ended_well({1}, {0}));
    CHECK(scene.silent(11));
    scene.take(scene.table.closed(0, scene.now));
  }
  scene.pass(milliseconds(200));
  CHECK_FALSE(scene.table.verdict());
  CHECK(scene.only_a<Notice>(11).text == "rank 0 on a has left the world");
}

TEST_CASE("one whose process has ended well before it joined keeps nobody waiting") {
  Scene scene(3, {"a", "b", "c"});
  const auto ends = [&scene] { scene.take(scene.table.ended_well({1}, {1})); };
  SUBCASE("who waits hears of it") {
    scene.ask(10, Join{0, "a", "", 120'000});
    ends();
    const auto heard = scene.only_a<Failure>(10);
    CHECK(heard.kind == FailureKind::over);
    CHECK(heard.message == "rank 1 on b was lost: it exited with code 0 before it joined");
  }
  SUBCASE("so does who comes later") {
    ends();
    CHECK_FALSE(scene.table.verdict());
    scene.ask(10, Join{0, "a", "", 120'000});
    CHECK(scene.only_a<Failure>(10).message ==
          "rank 1 on b was lost: it exited with code 0 before it joined");
  }
  SUBCASE("elastic members get another world") {
    scene.ask(10, Join{0, "a", "", 120'000, true});
    ends();
    CHECK(scene.silent(10));
    CHECK_FALSE(scene.table.verdict());
  }
  SUBCASE("who has come is not missed before its connection closes") {
    for (std::uint32_t rank = 0; rank < 3; ++rank) scene.ask(10 + rank, Join{rank, "h", "", 120'000});
    ends();
    CHECK_FALSE(scene.table.verdict());
  }
}

TEST_CASE("whose time to join has passed is not blamed where another has never come") {
  Scene scene(3, {"a", "b", "c"});
  scene.ask(10, Join{0, "a", "", 1000});
  scene.ask(12, Join{2, "c", "", 1500});
  scene.pass(milliseconds(1000));
  CHECK(scene.only_a<Failure>(10).missing == std::vector<std::uint32_t>{1});
  scene.pass(milliseconds(500));
  const auto second = scene.only_a<Failure>(12);
  CHECK(second.missing == std::vector<std::uint32_t>{1});
  CHECK(second.message ==
        "1 of 3 members has not joined generation 1: rank 1 on b (1 more came and gave up waiting)");
  CHECK(scene.table.outstanding() ==
        "1 of 3 members has not joined generation 1: rank 1 on b (2 more came and gave up waiting)");
}

TEST_CASE("a member of this generation that has ended well in another one is lost") {
  Trio scene;
  scene.take(scene.table.ended_well({7}, {0}));
  scene.take(scene.table.closed(0, scene.now));
  scene.pass(milliseconds(200));
  REQUIRE(scene.table.verdict());
  CHECK(scene.table.verdict()->kind == Verdict::Kind::lost);
}

TEST_CASE("one that leaves at the close of its connection is there until then, and the others are told") {
  Trio scene;
  scene.ask(0, Leave{true});
  scene.only_a<Done>(0);
  scene.ask(1, Barrier{"b", {}, 60000});
  scene.take(scene.table.closed(0, scene.now));
  SUBCASE("when nobody knows better") {
    CHECK(scene.silent(1));
    scene.pass(milliseconds(200));
    CHECK_FALSE(scene.table.verdict());
    CHECK(scene.only_a<Failure>(1).missing == Ranks{0});
    for (const std::uint32_t ear : {11, 12}) {
      const auto notice = scene.only_a<Notice>(ear);
      CHECK(notice.left == 0);
      CHECK(notice.change == Change::none);
      CHECK(notice.text == "rank 0 on a has left the world");
    }
    // One is enough: where all leave one by one, each would tell all others.
    scene.ask(12, News{2, 1, 60000});
    scene.ask(1, Leave{true});
    scene.take(scene.table.closed(1, scene.now));
    scene.pass(milliseconds(200));
    CHECK(scene.silent(12));
    scene.ask(2, Leave{});
    CHECK(scene.table.verdict()->kind == Verdict::Kind::ended);
  }
  SUBCASE("unless the launcher knows how it ended") {
    scene.take(scene.table.lost({1}, {0}, "a", "exited with code 3"));
    CHECK(scene.only_a<Failure>(1).verdict->how == "exited with code 3");
    scene.pass(seconds(1));
    CHECK(scene.table.verdict()->kind == Verdict::Kind::lost);
  }
}

TEST_CASE("in an open world it has left as soon as its connection closes, and all may end so") {
  Scene scene(2);
  scene.join_all(2);
  scene.ask(10, News{1, 0, 60000});
  scene.ask(0, Leave{true});
  scene.ask(1, Leave{true});
  scene.take(scene.table.closed(0, scene.now));
  CHECK(scene.only_a<Notice>(10).left == 0);
  scene.take(scene.table.closed(1, scene.now));
  REQUIRE(scene.table.verdict());
  CHECK(scene.table.verdict()->kind == Verdict::Kind::ended);
}

TEST_CASE("one that has left in order is told to nobody") {
  Trio scene;
  scene.ask(0, Leave{true});
  scene.ask(0, Leave{false});
  scene.take(scene.table.closed(0, scene.now));
  scene.pass(seconds(1));
  CHECK(scene.silent(11));
  CHECK_FALSE(scene.table.verdict());
}

TEST_CASE("an abort after a member has left says so") {
  Trio scene;
  scene.ask(1, Leave{false});
  scene.ask(0, Abort{"a connection to another rank failed", {}});
  const auto verdict = *scene.table.verdict();
  CHECK(verdict.culprit == 0);
  CHECK(verdict.how == "a connection to another rank failed (rank 1 on b had left the world)");
}

TEST_CASE("of whom nothing is heard any more it is told") {
  Trio scene;
  for (int rank = 0; rank < 3; ++rank) scene.says(rank, 4, false);
  const auto how = [&](const Ranks& missing) {
    scene.ask(0, Abort{"allreduce did not end within 6.0 s", missing});
    return scene.table.verdict()->how;
  };
  const auto pass_but_for = [&](const Ranks& still) {
    for (int second = 0; second < 4; ++second) {
      scene.pass(seconds(1));
      for (std::uint32_t rank = 0; rank < 3; ++rank)
        if (std::ranges::find(still, rank) == still.end()) scene.says(static_cast<int>(rank), 4, false);
    }
  };
  SUBCASE("one") {
    pass_but_for({2});
    CHECK(scene.table.silent(scene.now) == Ranks{2});
    CHECK(how({2}) ==
          "allreduce did not end within 6.0 s: rank 2 on c did not take part and has gone silent (is its "
          "process stopped?)");
  }
  SUBCASE("several") {
    pass_but_for({1, 2});
    CHECK(how({1, 2}).ends_with("did not take part and have gone silent (are their processes stopped?)"));
  }
  SUBCASE("one of several") {
    pass_but_for({2});
    CHECK(how({1, 2}).ends_with("did not take part; rank 2 on c has gone silent (is its process stopped?)"));
  }
  SUBCASE("nobody") {
    pass_but_for({});
    CHECK(scene.table.silent(scene.now).empty());
    CHECK(how({1, 2}).ends_with("did not take part"));
  }
  SUBCASE("who has left is not silent") {
    scene.ask(2, Leave{false});
    pass_but_for({2});
    CHECK(scene.table.silent(scene.now).empty());
  }
}

TEST_CASE("who waits in the operation itself is not the one that it waits for") {
  Trio scene;
  scene.says(0, 5, true);
  const auto verdict_of = [&](const Ranks& missing) {
    scene.ask(0, Abort{"allreduce did not end within 6.0 s", missing});
    return *scene.table.verdict();
  };
  SUBCASE("it says so") {
    scene.says(1, 5, true);
    scene.pass(seconds(1));
    const auto verdict = verdict_of({1, 2});
    CHECK(verdict.kind == Verdict::Kind::stalled);
    CHECK(verdict.culprit == 2);
    CHECK(verdict.missing == Ranks{2});
    CHECK(verdict.how == "allreduce did not end within 6.0 s: rank 2 on c did not take part");
  }
  SUBCASE("it said so and stands still since") {
    scene.says(1, 5, true);
    scene.pass(pulse_counts_for);
    CHECK(verdict_of({1, 2}).missing == Ranks{1, 2});
  }
  SUBCASE("it has not come to this one") {
    scene.says(1, 4, false);
    scene.says(2, 4, false);
    CHECK(verdict_of({1, 2}).missing == Ranks{1, 2});
  }
  SUBCASE("it waits in another operation, and so is not the first to be looked at") {
    scene.says(1, 4, true);
    scene.says(2, 4, false);
    const auto verdict = verdict_of({1, 2});
    CHECK(verdict.culprit == 2);
    CHECK(verdict.missing == Ranks{2});
    CHECK(verdict.how ==
          "allreduce did not end within 6.0 s: rank 2 on c did not take part; rank 1 on b waits in "
          "allreduce number 4");
  }
  SUBCASE("it waits in an operation of another group") {
    scene.says(1, 5, true, 7);
    const auto verdict = verdict_of({1, 2});
    CHECK(verdict.missing == Ranks{2});
    CHECK(verdict.how.ends_with(
        "rank 2 on c did not take part; rank 1 on b waits in allreduce number 5 of another group"));
  }
  SUBCASE("it waited in another operation, and stands still since") {
    scene.says(1, 4, true);
    scene.pass(pulse_counts_for);
    CHECK(verdict_of({1, 2}).missing == Ranks{1, 2});
  }
  SUBCASE("all that are missing wait in another operation") {
    scene.says(1, 4, true);
    scene.says(2, 4, true);
    const auto verdict = verdict_of({1, 2});
    CHECK(verdict.missing.empty());  // perhaps the reporter is where it should not be
    CHECK_FALSE(verdict.culprit);
    CHECK(
        verdict.how ==
        "allreduce did not end within 6.0 s: rank 0 on a waits in allreduce number 5; rank 1 on b and rank 2 "
        "on c wait in allreduce number 4");
  }
  SUBCASE("each of them waits in another one") {
    scene.ask(11, Pulse{1, "broadcast", 3, true, 8});
    scene.ask(11, Pulse{1, "the first receive from rank 2", 0, true, 8});
    scene.ask(12, Pulse{2, "the first receive\nfrom rank 1", 0, true, 9});
    const auto verdict = verdict_of({1, 2});
    CHECK(verdict.missing.empty());
    CHECK(verdict.how ==
          "allreduce did not end within 6.0 s: rank 0 on a waits in allreduce number 5; rank 1 on b waits in "
          "the first receive from rank 2; rank 2 on c waits in the first receive\\x0afrom rank 1");
  }
  SUBCASE("it waits for one that is not missed here, and waits for nobody") {
    scene.says(1, 4, true, 7);
    scene.says(2, 4, false);
    const auto verdict = verdict_of({1});
    CHECK(verdict.culprit == 2);
    CHECK(verdict.missing == Ranks{2});
    CHECK(verdict.how ==
          "allreduce did not end within 6.0 s: rank 0 on a waits in allreduce number 5; rank 1 on b waits in "
          "allreduce number 4 of another group; rank 2 on c is in no operation");
  }
  SUBCASE("it only connects so far") {
    scene.says(1, 0, true);
    CHECK(verdict_of({1, 2}).missing == Ranks{2});
    CHECK(scene.table.verdict()->how.ends_with("; rank 1 on b waits in allreduce"));
  }
  SUBCASE("it is out of the next one") {
    scene.says(1, 6, true);
    scene.says(2, 6, false);
    CHECK(verdict_of({1, 2}).missing == Ranks{2});
  }
  SUBCASE("all are there, and nobody is at fault") {
    scene.says(1, 5, true);
    scene.says(2, 5, true);
    const auto verdict = verdict_of({1, 2});
    CHECK(verdict.kind == Verdict::Kind::stalled);
    CHECK_FALSE(verdict.culprit);
    CHECK(at_fault(verdict).empty());
    CHECK(verdict.how == "allreduce did not end within 6.0 s, though all ranks took part");
  }
}

TEST_CASE("a member that repeats where it waits has not got on") {
  Trio scene;
  scene.says(1, 5, true);
  CHECK(scene.table.take_events().size() == 1 + 4);  // three joins, and the world
  scene.says(1, 5, true);
  CHECK(scene.table.take_events().empty());
  scene.says(1, 5, false);
  CHECK(scene.table.take_events().size() == 1);
}

TEST_CASE("who is at fault: the dead and those that do not come, never who tells of trouble") {
  CHECK(at_fault({Verdict::Kind::lost, 3, "h", "was killed by SIGKILL", {}}) == Ranks{3});
  CHECK(at_fault({Verdict::Kind::stalled, 1, "h", "why", {1}}) == Ranks{1});
  CHECK(at_fault({Verdict::Kind::stalled, {}, "", "why", {1, 2}}) == Ranks{1, 2});
  CHECK(at_fault({Verdict::Kind::aborted, 3, "h", "a connection failed", {}}).empty());
  CHECK(at_fault({Verdict::Kind::ended, {}, "", "", {}}).empty());
}
