// From one generation to the next: places, dismissals, notices, pulses, and what the launcher hears.
#include <doctest/doctest.h>

#include "rendezvous/protocol.h"
#include "tests/unit/rendezvous/scene.h"

using namespace trainrun;
using namespace trainrun::rendezvous;

namespace {

// Generation 1 of workers 11, 12, 13 at connections 0, 1, 2, all joined.
struct Trio : Scene {
  Trio() : Scene(1) {
    begin(1, {11, 12, 13});
    for (std::uint32_t rank = 0; rank < 3; ++rank) ask(rank, Join{rank, "", "", 1000, true, 11 + rank});
    told.clear();
    events();
  }
  std::vector<Event> events() { return table.take_events(); }
  template <class E>
  std::vector<E> events_of() {
    std::vector<E> wanted;
    for (const auto& event : events())
      if (const auto* it = std::get_if<E>(&event)) wanted.push_back(*it);
    return wanted;
  }
};

}  // namespace

TEST_CASE("survivors that ask for their place get it when the launcher begins the next generation") {
  Trio scene;
  scene.take(scene.table.lost({1}, {1}, "h12", "was killed by SIGKILL"));
  scene.told.clear();
  scene.ask(0, Next{11, 60000});
  scene.ask(2, Next{13, 60000});
  const auto waits = scene.events_of<MemberWaits>();
  REQUIRE(waits.size() == 2);
  CHECK(waits[0].generation == Generation{1});
  CHECK(waits[0].worker == WorkerId{11});
  CHECK(waits[1].worker == WorkerId{13});
  CHECK(scene.silent(0));
  scene.begin(2, {11, 13, 14});
  CHECK(scene.only_a<Placed>(0).rank == 0);
  const auto placed = scene.only_a<Placed>(2);
  CHECK(placed.rank == 1);
  CHECK(placed.generation == 2);
  // The same connections go on in the new generation.
  scene.ask(0, Join{0, "", "", 1000, true, 11}, 2);
  scene.ask(2, Join{1, "", "", 1000, true, 13}, 2);
  scene.ask(3, Join{2, "", "", 1000, false, 14}, 2);
  CHECK(scene.only_a<Joined>(3).self.worker == 14);
  const auto formed = scene.events_of<Formed>();
  REQUIRE(formed.size() == 1);
  CHECK(formed[0].generation == Generation{2});
  CHECK_FALSE(formed[0].elastic);  // 14 is not
}

TEST_CASE("one that asks late is placed at once, and one that nobody knows waits") {
  Trio scene;
  scene.begin(2, {13, 11, 20});
  scene.told.clear();
  scene.ask(2, Next{13, 60000});
  CHECK(scene.only_a<Placed>(2).rank == 0);
  CHECK(scene.events_of<MemberWaits>().empty());  // the launcher knows already
  scene.ask(1, Next{12, 60000});
  CHECK(scene.silent(1));
  scene.begin(4, {12});
  CHECK(scene.only_a<Placed>(1).generation == 4);
}

TEST_CASE("who has asked for the next generation is no lost member, and its old connection may close") {
  Trio scene;
  scene.ask(9, Next{12, 60000});  // over another connection than the one that joined
  scene.take(scene.table.closed(1, scene.now));
  scene.pass(seconds(1));
  CHECK_FALSE(scene.table.verdict());
  CHECK(scene.events_of<Broken>().empty());
  SUBCASE("also when the connection closed first") {
    scene.take(scene.table.closed(2, scene.now));
    scene.pass(milliseconds(100));
    scene.ask(9, Next{13, 60000});
    scene.pass(seconds(1));
    CHECK_FALSE(scene.table.verdict());
  }
  SUBCASE("others that wait for it hear that it has left") {
    scene.ask(0, Barrier{"b", {}, 60000});
    const auto failure = scene.only_a<Failure>(0);
    CHECK(failure.kind == FailureKind::left);
    CHECK(failure.missing == Ranks{1});
  }
  SUBCASE("when all have gone on the generation has ended") {
    scene.ask(0, Next{11, 60000});
    scene.ask(2, Next{13, 60000});
    REQUIRE(scene.table.verdict());
    CHECK(scene.table.verdict()->kind == Verdict::Kind::ended);
    CHECK(scene.events_of<Broken>().empty());
    scene.begin(2, {11, 12, 13});
    CHECK(scene.only_a<Placed>(9).rank == 1);
    CHECK(scene.only_a<Placed>(0).rank == 0);
  }
}

TEST_CASE("one that gives up a generation before it is complete ends it, and nobody is at fault") {
  Trio scene;
  scene.begin(2, {11, 12, 14});
  scene.told.clear();
  scene.ask(0, Join{0, "", "", 60000, true, 11}, 2);
  scene.ask(1, Next{12, 60000}, 2);
  const auto failure = scene.only_a<Failure>(0);
  CHECK(failure.kind == FailureKind::over);
  CHECK(failure.verdict->how == "rank 1 on h12 gave up before all members were here, without rank 2 on h14");
  CHECK(scene.silent(1));
  const auto broken = scene.events_of<Broken>();
  REQUIRE(broken.size() == 1);
  CHECK_FALSE(broken[0].verdict.culprit);
  CHECK(at_fault(broken[0].verdict).empty());
}

TEST_CASE("a dismissed worker hears so, whether it waits or asks later") {
  Trio scene;
  scene.ask(0, Next{11, 60000});
  scene.ask(9, Next{12, 60000});
  scene.take(scene.table.dismiss({12}));
  CHECK(scene.only_a<Failure>(9).kind == FailureKind::removed);
  CHECK(scene.silent(0));
  scene.begin(2, {11});
  scene.told.clear();
  scene.ask(9, Next{12, 60000});
  CHECK(scene.only_a<Failure>(9).kind == FailureKind::removed);
}

TEST_CASE("a next has a deadline, makes no sense for the future, and needs a launcher") {
  Trio scene;
  scene.ask(0, Next{11, 100});
  scene.begin(2, {12});
  CHECK(scene.silent(0));
  scene.pass(milliseconds(100));
  CHECK(scene.only_a<Failure>(0).kind == FailureKind::timeout);
  scene.ask(0, Next{11, 100}, 3);
  CHECK(scene.only_a<Failure>(0).kind == FailureKind::stale);
  scene.ask(0, Next{0, 100}, 2);
  CHECK(scene.only_a<Failure>(0).kind == FailureKind::invalid);
  Scene open(1);
  open.ask(0, Next{11, 100});
  CHECK(open.only_a<Failure>(0).kind == FailureKind::invalid);
}

TEST_CASE("a rank is joined by the worker that the launcher gave it to") {
  Trio scene;
  scene.begin(2, {11, 12});
  scene.told.clear();
  scene.ask(5, Join{0, "", "", 1000, true, 13}, 2);
  const auto failure = scene.only_a<Failure>(5);
  CHECK(failure.kind == FailureKind::invalid);
  CHECK(failure.message == "rank 0 of generation 2 is worker 11, not worker 13");
  scene.ask(5, Join{0, "", "", 1000, true, 11}, 2);
  scene.ask(6, Join{1, "", "", 1000}, 2);  // one that does not know its number is believed
  CHECK(scene.only_a<Joined>(6).self.rank == 1);
}

TEST_CASE("the launcher hears of joins, of the whole world, and of what members break") {
  Scene scene(1);
  scene.begin(1, {11, 12});
  scene.ask(0, Join{0, "", "", 1000, true, 11});
  auto events = scene.table.take_events();
  REQUIRE(events.size() == 1);
  CHECK(std::get<MemberJoined>(events[0]).rank == Rank{0});
  scene.ask(1, Join{1, "", "", 1000, true, 12});
  events = scene.table.take_events();
  REQUIRE(events.size() == 2);
  CHECK(std::get<MemberJoined>(events[0]).rank == Rank{1});
  CHECK(std::get<Formed>(events[1]).elastic);
  SUBCASE("an abort") {
    scene.ask(0, Abort{"why", {1}});
    events = scene.table.take_events();
    REQUIRE(events.size() == 1);
    CHECK(std::get<Broken>(events[0]).generation == Generation{1});
    CHECK(std::get<Broken>(events[0]).verdict.culprit == 1);
  }
  SUBCASE("a connection that closes, once the launcher had its time to explain") {
    scene.take(scene.table.closed(1, scene.now));
    CHECK(scene.table.take_events().empty());
    scene.pass(milliseconds(200));
    events = scene.table.take_events();
    REQUIRE(events.size() == 1);
    CHECK(std::get<Broken>(events[0]).verdict.kind == Verdict::Kind::lost);
  }
  SUBCASE("not of its own words") {
    scene.take(scene.table.closed(1, scene.now));
    scene.take(scene.table.lost({1}, {1}, "h12", "exited with 1"));
    scene.pass(seconds(1));
    CHECK(scene.table.take_events().empty());
  }
}

TEST_CASE("notices reach those who wait and those who ask later, each once, and stop those who are to go") {
  Trio scene;
  scene.ask(5, News{0, 0, 60000});
  scene.ask(6, News{1, 0, 60000});
  scene.take(scene.table.announce({1}, Change::leaving, {12}, "h12 will leave"));
  auto first = scene.only_a<Notice>(5);
  CHECK(first.number == 1);
  CHECK(first.change == Change::leaving);
  CHECK_FALSE(first.stop);
  CHECK(first.text == "h12 will leave");
  CHECK(scene.only_a<Notice>(6).stop);
  scene.ask(5, News{0, 1, 100});
  CHECK(scene.silent(5));
  scene.take(scene.table.announce({1}, Change::added, {}, "h14 was added"));
  CHECK(scene.only_a<Notice>(5).number == 2);
  scene.ask(7, News{2, 0, 60000});  // the oldest that it has not seen
  CHECK(scene.only_a<Notice>(7).number == 1);
  scene.ask(7, News{2, 2, 100});
  scene.pass(milliseconds(100));
  CHECK(scene.only_a<Failure>(7).kind == FailureKind::timeout);
  scene.ask(7, News{3, 0, 100});
  CHECK(scene.only_a<Failure>(7).kind == FailureKind::invalid);

  scene.take(scene.table.announce({9}, Change::added, {}, "of another generation"));
  scene.ask(7, News{2, 2, 60000});
  scene.begin(2, {11, 12, 13});  // starts with none
  CHECK(scene.only_a<Failure>(7).kind == FailureKind::over);
  scene.ask(7, News{2, 0, 60000}, 2);
  CHECK(scene.silent(7));
}

TEST_CASE("who leaves is in no operation any more, whatever it said last") {
  Trio scene;
  scene.ask(1, Pulse{1, "allreduce", 7, true, 9});
  scene.ask(1, Leave{});
  scene.ask(2, Leave{});  // it was in none
  const auto pulses = scene.events_of<MemberPulse>();
  REQUIRE(pulses.size() == 2);
  CHECK(pulses[0].said.in_operation);
  CHECK(pulses[1].worker == WorkerId{12});
  CHECK(pulses[1].said.sequence == 7);
  CHECK(pulses[1].said.group == 9);
  CHECK_FALSE(pulses[1].said.in_operation);
}

TEST_CASE("a pulse of a member reaches the launcher with its worker") {
  Trio scene;
  scene.ask(5, Pulse{1, "allreduce", 7, true});
  scene.only_a<Done>(5);
  const auto pulses = scene.events_of<MemberPulse>();
  REQUIRE(pulses.size() == 1);
  CHECK(pulses[0].generation == Generation{1});
  CHECK(pulses[0].worker == WorkerId{12});
  CHECK(pulses[0].said.op == "allreduce");
  CHECK(pulses[0].said.sequence == 7);
  CHECK(pulses[0].said.in_operation);
  scene.ask(5, Pulse{1, std::string(81, 'x'), 7, true});
  CHECK(scene.only_a<Failure>(5).kind == FailureKind::limit);
  scene.ask(5, Pulse{3, "x", 7, true});
  CHECK(scene.only_a<Failure>(5).kind == FailureKind::invalid);
  scene.begin(2, {11});
  scene.told.clear();
  scene.ask(5, Pulse{0, "x", 7, true}, 2);
  CHECK(scene.only_a<Failure>(5).kind == FailureKind::invalid);  // has not joined
  CHECK(scene.events_of<MemberPulse>().empty());
}
