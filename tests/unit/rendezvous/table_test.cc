// Membership, generations, verdicts.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <tuple>

#include "rendezvous/protocol.h"
#include "tests/unit/rendezvous/scene.h"

using namespace trainrun;
using namespace trainrun::rendezvous;

TEST_CASE("all members hear their place once the last has joined, and can ask for the others") {
  Scene scene(3);
  scene.ask(10, Join{2, "b", "10.0.0.2", 1000});
  scene.ask(11, Join{0, "a", "10.0.0.1", 1000});
  CHECK(scene.silent(10));
  scene.ask(12, Join{1, "b", "10.0.0.2", 1000});
  const auto joined = scene.only_a<Joined>(10);
  CHECK(joined.self == Member{2, "b", "10.0.0.2", 1, 2});
  CHECK(joined.size == 3);
  CHECK(joined.generation == 1);
  CHECK(joined.job == "job");
  const std::vector<Member> members{
      {0, "a", "10.0.0.1", 0, 1}, {1, "b", "10.0.0.2", 0, 2}, {2, "b", "10.0.0.2", 1, 2}};
  CHECK(scene.members(10, 3) == members);
  CHECK(joined.digest == digest_of(members));
  CHECK(scene.only_a<Joined>(11).self.rank == 0);
  CHECK(scene.only_a<Joined>(12).self.rank == 1);
  CHECK_FALSE(scene.table.next_deadline());
}

TEST_CASE("ranks that nobody asked for are given in the order of arrival") {
  Scene scene(4);
  scene.ask(10, Join{{}, "a", "", 1000});
  scene.ask(11, Join{1, "a", "", 1000});
  scene.ask(12, Join{{}, "a", "", 1000});
  scene.ask(13, Join{{}, "a", "", 1000});
  CHECK(scene.only_a<Joined>(10).self.rank == 0);
  CHECK(scene.only_a<Joined>(11).self.rank == 1);
  CHECK(scene.only_a<Joined>(12).self.rank == 2);
  CHECK(scene.only_a<Joined>(13).self.rank == 3);
}

TEST_CASE("in a world that the launcher described, the hosts and local ranks are the launcher's") {
  Scene scene(2, {"gpu1", "gpu2"});
  scene.ask(10, Join{0, "localhost", "10.0.0.1", 1000});
  scene.ask(11, Join{1, "localhost", "", 1000});
  CHECK(scene.only_a<Joined>(10).self.host == "gpu1");
  const auto members = scene.members(10, 2);
  CHECK(members[0].host == "gpu1");
  CHECK(members[0].address == "10.0.0.1");
  CHECK(members[1].host == "gpu2");
}

TEST_CASE("a join that waits in vain names who is missing, and may be tried again") {
  Scene scene(3, {"a", "b", "c"});
  scene.ask(10, Join{1, "", "", 500});
  CHECK(scene.table.next_deadline() == scene.now + milliseconds(500));
  scene.pass(milliseconds(499));
  CHECK(scene.silent(10));
  scene.pass(milliseconds(1));
  const auto failure = scene.only_a<Failure>(10);
  CHECK(failure.kind == FailureKind::timeout);
  CHECK(failure.missing == Ranks{0, 2});
  CHECK(failure.message == "2 of 3 members have not joined generation 1: rank 0 on a and rank 2 on c");
  for (std::uint32_t rank = 0; rank < 3; ++rank) scene.ask(10 + rank, Join{rank, "", "", 500});
  CHECK(scene.only_a<Joined>(10).self.rank == 0);
}

TEST_CASE("a rank is given once, and a world has no more members than its size") {
  Scene scene(2);
  scene.ask(10, Join{0, "a", "", 1000});
  scene.ask(11, Join{0, "b", "", 1000});
  CHECK(scene.only_a<Failure>(11).kind == FailureKind::exists);
  scene.ask(11, Join{2, "b", "", 1000});
  CHECK(scene.only_a<Failure>(11).kind == FailureKind::invalid);
  scene.ask(10, Join{1, "a", "", 1000});
  CHECK(scene.only_a<Failure>(10).kind == FailureKind::invalid);
  scene.ask(11, Join{{}, "b", "", 1000});
  CHECK(scene.only_a<Joined>(11).self.rank == 1);
  scene.ask(12, Join{{}, "c", "", 1000});
  CHECK(scene.only_a<Failure>(12).kind == FailureKind::exists);
}

TEST_CASE("a request of another generation is refused with the current one") {
  Scene scene(1);
  scene.ask(5, Put{"k", "old"});
  scene.only_a<Done>(5);
  scene.take(scene.table.begin(World{2, 1, "job", {}}, scene.now));
  for (const std::uint32_t generation : {1u, 3u}) {
    scene.ask(5, Get{"k"}, generation);
    const auto failure = scene.only_a<Failure>(5);
    CHECK(failure.kind == FailureKind::stale);
    CHECK(failure.current == 2);
  }
  scene.ask(5, Get{"k"}, 2);  // nothing of the old generation is left
  CHECK(scene.only_a<Failure>(5).kind == FailureKind::not_found);
}

TEST_CASE("before the first generation everything is refused") {
  Table table;
  const auto outbox = table.apply(1, Request{1, 0, Put{"k", "v"}}, Instant{});
  REQUIRE(outbox.size() == 1);
  CHECK(std::get<Failure>(*outbox.front().body).kind == FailureKind::stale);
}

TEST_CASE("whoever waits in a generation hears that the next one begins") {
  Scene scene(2);
  scene.join_all(2);
  scene.ask(0, Wait{{"k"}, 1000});
  scene.ask(1, Watch{1000});
  scene.take(scene.table.begin(World{2, 2, "job", {}}, scene.now));
  CHECK(scene.only_a<Failure>(0).kind == FailureKind::over);
  CHECK(scene.only_a<Over>(1).verdict.kind == Verdict::Kind::ended);
  CHECK_FALSE(scene.table.next_deadline());
}

TEST_CASE("in an open world a connection that closes without leave is a lost member, for everybody") {
  Scene scene(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    scene.ask(rank, Join{rank, fmt::format("h{}", rank), "", 1000});
  scene.told.clear();
  scene.ask(0, Watch{1000});
  scene.ask(2, Barrier{"b", {}, 1000});
  scene.take(scene.table.closed(1, scene.now));
  const auto verdict = scene.only_a<Over>(0).verdict;
  CHECK(verdict.kind == Verdict::Kind::lost);
  CHECK(verdict.culprit == 1);
  CHECK(verdict.host == "h1");
  const auto failure = scene.only_a<Failure>(2);
  CHECK(failure.kind == FailureKind::over);
  CHECK(failure.verdict == verdict);
  scene.ask(2, Get{"k"});
  CHECK(scene.only_a<Failure>(2).kind == FailureKind::over);
  scene.ask(2, Watch{1000});
  CHECK(scene.only_a<Over>(2).verdict == verdict);
}

TEST_CASE("in a described world the launcher's word about a lost member counts, if it comes in time") {
  Scene scene(2, {"a", "b"});
  scene.join_all(2);
  scene.ask(0, Watch{10000});
  scene.take(scene.table.closed(1, scene.now));
  CHECK(scene.silent(0));
  SUBCASE("it comes") {
    scene.take(scene.table.lost({1}, {1}, "b", "was killed by SIGKILL"));
    CHECK(describe(scene.only_a<Over>(0).verdict) == "rank 1 on b was lost: was killed by SIGKILL");
    scene.pass(seconds(1));
    CHECK(scene.silent(0));
  }
  SUBCASE("it does not come") {
    CHECK(scene.table.next_deadline() == scene.now + milliseconds(200));
    scene.pass(milliseconds(200));
    CHECK(scene.only_a<Over>(0).verdict.culprit == 1);
  }
}

TEST_CASE("in a world that goes on a member that fails is lost, and one that had left is not missed") {
  Scene scene(2, {"a", "b"});
  scene.join_all(2);
  SUBCASE("it was there") {
    scene.ask(0, Watch{10000});
    scene.take(scene.table.failed({1}, {1}, "b", "exited with code 3"));
    CHECK(describe(scene.only_a<Over>(0).verdict) == "rank 1 on b was lost: exited with code 3");
  }
  SUBCASE("it had left") {
    scene.ask(1, Leave{});
    scene.take(scene.table.failed({1}, {1}, "b", "exited with code 3"));
    CHECK_FALSE(scene.table.verdict());
  }
}

TEST_CASE("the first verdict stands, and words about another generation are ignored") {
  Scene scene(2, {"a", "b"});
  scene.join_all(2);
  scene.take(scene.table.lost({7}, {0}, "a", "x"));
  CHECK_FALSE(scene.table.verdict());
  scene.take(scene.table.lost({1}, {1}, "b", "first"));
  scene.take(scene.table.lost({1}, {0}, "a", "second"));
  scene.take(scene.table.end({1}, "third"));
  CHECK(scene.table.verdict()->how == "first");
}

TEST_CASE("members of any range can be asked for, by anybody, once all have joined") {
  Scene scene(3, {"a", "b", "c"});
  scene.ask(9, FetchMembers{0, 1});
  CHECK(scene.only_a<Failure>(9).kind == FailureKind::invalid);
  scene.join_all(3);
  scene.ask(9, FetchMembers{1, 2});
  const auto members = scene.only_a<Members>(9).members;
  REQUIRE(members.size() == 2);
  CHECK(members[0].rank == 1);
  CHECK(members[1].host == "c");
  for (const auto& [first, count, kind] : {std::tuple{1u, 0u, FailureKind::limit},
                                           {0u, max_members + 1, FailureKind::limit},
                                           {1u, 3u, FailureKind::invalid},
                                           {3u, 1u, FailureKind::invalid},
                                           {~0u, 2u, FailureKind::invalid}}) {
    scene.ask(9, FetchMembers{first, count});
    CHECK(scene.only_a<Failure>(9).kind == kind);
  }
}

TEST_CASE("a failure names the first of very many who are missing, and how many there are") {
  constexpr std::uint32_t size = 3 * max_missing;
  Scene scene(size);
  SUBCASE("of a join") {
    scene.ask(1, Join{size - 1, "h", "", 1000});
    scene.pass(seconds(1));
    const auto failure = scene.only_a<Failure>(1);
    CHECK(failure.missing.size() == max_missing);
    CHECK(failure.message.ends_with("rank 7 and 3063 more"));
  }
  SUBCASE("of a barrier and a gather") {
    scene.join_all(size);
    scene.ask(1, Barrier{"b", {}, 1000});
    scene.ask(2, Put{"p0", ""});
    scene.told.clear();
    scene.ask(2, Gather{"p", size, 1000});
    scene.pass(seconds(1));
    for (const std::uint32_t c : {1u, 2u}) {
      const auto failure = scene.only_a<Failure>(c);
      CHECK(failure.missing.size() == max_missing);
      CHECK(failure.missing.back() == max_missing);  // one of those before it is there
      CHECK(failure.message.find("and 3063 more") != std::string::npos);
    }
  }
}

TEST_CASE("waiters that are told the same share one answer") {
  Scene scene(3);
  scene.join_all(3);
  const auto ask_all = [&](auto body) {
    Outbox answers;
    for (std::uint32_t c = 0; c < 3; ++c) answers = scene.table.apply(c, Request{1, 1, body}, scene.now);
    return answers;
  };
  auto answers = ask_all(Barrier{"b", {}, 1000});
  REQUIRE(answers.size() == 3);
  for (const auto& answer : answers) CHECK(answer.body == answers[0].body);
  CHECK(ask_all(Watch{1000}).empty());
  answers = scene.table.lost({1}, {1}, "h", "was killed");
  REQUIRE(answers.size() == 3);
  for (const auto& answer : answers) CHECK(answer.body == answers[0].body);
}

TEST_CASE("a member that has left is not lost, and when all have left the generation has ended") {
  Scene scene(2);
  scene.join_all(2);
  scene.ask(0, Leave{});
  scene.take(scene.table.closed(0, scene.now));
  CHECK_FALSE(scene.table.verdict());
  scene.ask(1, Leave{});
  CHECK(scene.table.everybody_left());
  CHECK(scene.table.verdict()->kind == Verdict::Kind::ended);
}

TEST_CASE("an arrival without a rank may go again before the world is complete") {
  Scene scene(2);
  scene.ask(10, Join{{}, "a", "", 1000});
  scene.take(scene.table.closed(10, scene.now));
  CHECK_FALSE(scene.table.verdict());
  scene.ask(11, Join{{}, "a", "", 1000});
  scene.ask(12, Join{{}, "a", "", 1000});
  CHECK(scene.only_a<Joined>(11).self.rank == 0);
}

TEST_CASE("a connection that never joined may close at any time") {
  Scene scene(2);
  scene.join_all(2);
  scene.ask(9, Watch{1000});
  scene.take(scene.table.closed(9, scene.now));
  CHECK_FALSE(scene.table.verdict());
  CHECK_FALSE(scene.table.next_deadline());
}

TEST_CASE("an abort ends the generation with its reason and those who are missing") {
  Scene scene(3, {"a", "b", "c"});
  scene.join_all(3);
  scene.ask(0, Watch{1000});
  scene.ask(1, Abort{"allreduce 7 timed out", {2}});
  scene.only_a<Done>(1);
  const auto verdict = scene.only_a<Over>(0).verdict;
  CHECK(verdict.kind == Verdict::Kind::stalled);
  CHECK(verdict.culprit == 2);
  CHECK(verdict.host == "c");
  CHECK(verdict.missing == Ranks{2});
}

TEST_CASE("a watch has a deadline too") {
  Scene scene(1);
  scene.ask(5, Watch{100});
  scene.pass(milliseconds(100));
  CHECK(scene.only_a<Failure>(5).kind == FailureKind::timeout);
}

TEST_CASE("in an open world those who wait for a rank count as here, and no rank is called missing") {
  Scene scene(8);
  for (std::uint32_t c = 10; c < 17; ++c) scene.ask(c, Join{{}, "h", "", 500 + c});
  CHECK(scene.table.outstanding() == "1 of 8 members has not joined generation 1");
  scene.pass(milliseconds(510));
  const auto first = scene.only_a<Failure>(10);
  CHECK(first.message == "1 of 8 members has not joined generation 1");
  CHECK(first.missing.empty());
  scene.pass(milliseconds(1));
  CHECK(scene.only_a<Failure>(11).message ==
        "2 of 8 members have not joined generation 1 (1 of them came and gave up waiting)");
  scene.ask(10, Join{{}, "h", "", 5000});
  CHECK(scene.table.outstanding() ==
        "2 of 8 members have not joined generation 1 (1 of them came and gave up waiting)");
}

TEST_CASE("a world that is complete says who has not left") {
  Scene scene(3, {"a", "b", "c"});
  CHECK(scene.table.outstanding() ==
        "3 of 3 members have not joined generation 1: rank 0 on a, rank 1 on b and rank 2 on c");
  scene.join_all(3);
  scene.ask(1, Leave{});
  CHECK(scene.table.outstanding() == "2 of 3 members have not left: rank 0 on a and rank 2 on c");
}

TEST_CASE("an end that nobody planned is an abort by nobody in particular") {
  Scene scene(2);
  scene.join_all(2);
  scene.ask(0, Watch{1000});
  scene.take(scene.table.end({1}, "the server got SIGTERM", Verdict::Kind::aborted));
  const auto verdict = scene.only_a<Over>(0).verdict;
  CHECK(verdict.kind == Verdict::Kind::aborted);
  CHECK_FALSE(verdict.culprit);
  CHECK(describe(verdict) == "the world was aborted: the server got SIGTERM");
}

TEST_CASE("what members call themselves and why they abort is shown as one line that no terminal obeys") {
  Scene scene(2);
  scene.ask(0, Join{0, "a\x1b[31m", "", 1000});
  scene.ask(1, Join{{}, "b", "", 1000});
  scene.told.clear();
  scene.ask(1, Watch{1000});
  SUBCASE("host of a lost member") {
    scene.take(scene.table.closed(0, scene.now));
    CHECK(describe(scene.only_a<Over>(1).verdict) ==
          "rank 0 on a\\x1b[31m was lost: its connection closed and it had not left");
  }
  SUBCASE("host of a missing member") {
    scene.ask(1, Barrier{"b", {}, 100});
    scene.pass(milliseconds(100));
    CHECK(scene.only_a<Failure>(1).message == "barrier 'b': rank 0 on a\\x1b[31m did not come");
  }
  SUBCASE("reason") {
    scene.ask(0, Abort{"first\nsecond\xff", {}});
    CHECK(scene.only_a<Over>(1).verdict.how == "first\\x0asecond\\xff");
  }
  SUBCASE("long reason") {
    scene.ask(0, Abort{std::string(max_text, '\n'), {}});
    CHECK(scene.only_a<Over>(1).verdict.how.size() == max_text);
  }
}

TEST_CASE("an abort that does not fit is refused with what is wrong about it") {
  Scene scene(2);
  scene.join_all(2);
  scene.ask(0, Abort{std::string(max_text + 1, 'x'), {}});
  CHECK(scene.only_a<Failure>(0).kind == FailureKind::limit);
  for (const auto& missing : {Ranks{1, 1}, Ranks{2}}) {
    scene.ask(0, Abort{"x", missing});
    const auto failure = scene.only_a<Failure>(0);
    CHECK(failure.kind == FailureKind::invalid);
    CHECK(failure.message == "an abort names missing ranks of the world, each once");
  }
  CHECK_FALSE(scene.table.verdict());
}
