#include "rendezvous/adapters/horovod_rounds.h"

#include <doctest/doctest.h>

#include <utility>

namespace trainrun::rendezvous {
namespace {

using Seats = std::vector<HorovodSeat>;
using Told = std::vector<std::string>;

const Seats three = {
    {{0}, "a", 0, 2, 0, 2, {1}}, {{1}, "a", 1, 2, 0, 1, {2}}, {{2}, "127.0.0.1", 0, 1, 1, 2, {3}}};

struct Scene {
  Told told;
  std::map<std::uint32_t, std::string> answers;
  std::uint32_t last = 0;
  HorovodRounds rounds{
      {[this](std::uint32_t connection, const std::string& place) {
         CHECK(answers.emplace(connection, place).second);
       },
       [this](Rank rank) { told.push_back("joined " + std::to_string(rank.value)); },
       [this] { told.emplace_back("formed"); },
       [this](WorkerId worker) { told.push_back("waits " + std::to_string(worker.value)); },
       [this](WorkerId worker) { told.push_back("hopeless " + std::to_string(worker.value)); }}};

  std::uint32_t ask(const std::string& name) {
    rounds.ask(++last, name);
    return last;
  }
  std::string answer(std::uint32_t connection) {
    return answers.contains(connection) ? answers[connection] : "";
  }
  Told take() { return std::exchange(told, {}); }
  // hvd.init of each of them.
  void meet(const Seats& world) {
    for (const auto& seat : world) rounds.arrived(seat.rank);
    for (const auto& seat : world) rounds.initialised(seat.local_rank, seat.cross_rank);
  }
  void begin_elastic(const Seats& world) {
    rounds.begin(world);
    meet(world);
    for (const auto& seat : world) rounds.registered(seat.host + ":" + std::to_string(seat.local_rank));
  }
};

TEST_CASE("a world has formed when all are through with hvd.init and have told that they are elastic") {
  Scene scene;
  scene.rounds.begin(three);
  scene.meet(three);
  CHECK_FALSE(scene.rounds.elastic());
  scene.rounds.registered("a:0");
  scene.rounds.registered("a:1");
  CHECK(scene.rounds.elastic());
  CHECK(scene.take() == Told{});
  scene.rounds.registered("127.0.0.1:0");
  CHECK(scene.take() == Told{"formed"});
  scene.rounds.registered("127.0.0.1:0");
  CHECK(scene.take() == Told{});
}

TEST_CASE("who is not elastic keeps its place, and whom nobody knows has none") {
  Scene scene;
  scene.rounds.begin(three);
  CHECK(scene.answer(scene.ask("a:1")) == "1,3,1,2,0,1");
  CHECK(scene.answer(scene.ask("localhost:0")) == "-1,-1,-1,-1,-1,-1");
  CHECK(scene.take() == Told{});
}

TEST_CASE("survivors are answered when all have asked and the newcomer has come") {
  Scene scene;
  scene.begin_elastic(three);
  scene.take();
  // Rank 0 is killed: its slot is filled anew, and rank 0 is a survivor.
  const auto early = scene.ask("a:1");
  CHECK(scene.take() == Told{"waits 2"});
  const Seats next = {
      {{0}, "a", 1, 2, 0, 1, {2}}, {{1}, "a", 0, 2, 0, 2, {4}}, {{2}, "127.0.0.1", 0, 1, 1, 2, {3}}};
  scene.rounds.begin(next);
  CHECK(scene.take() == Told{"joined 0"});
  scene.rounds.arrived({1});
  CHECK(scene.take() == Told{"joined 1"});
  CHECK(scene.rounds.asking() == std::set<Rank>{{0}});
  CHECK(scene.answer(early).empty());
  const auto late = scene.ask("127.0.0.1:0");
  CHECK(scene.take() == Told{"joined 2"});
  CHECK(scene.answer(early) == "0,3,1,2,0,1");
  CHECK(scene.answer(late) == "2,3,0,1,1,2");
  scene.meet(next);
  CHECK(scene.take() == Told{});  // the newcomer has not said that it is elastic
  scene.rounds.registered("a:0");
  CHECK(scene.take() == Told{"formed"});
}

TEST_CASE("the same question twice counts once, and gets the same answer") {
  Scene scene;
  scene.begin_elastic(three);
  scene.take();
  const auto first = scene.ask("a:0"), again = scene.ask("a:0");
  CHECK(scene.take() == Told{"waits 1"});
  scene.rounds.closed(first);
  const auto other = scene.ask("a:1");
  CHECK(scene.take() == Told{"waits 2"});
  scene.rounds.begin({{{0}, "a", 0, 2, 0, 1, {1}}, {{1}, "a", 1, 2, 0, 1, {2}}});
  CHECK(scene.answers.size() == 2);
  CHECK(scene.answer(again) == "0,2,0,2,0,1");
  CHECK(scene.answer(other) == "1,2,1,2,0,1");
}

TEST_CASE("who is about to be ended does not get the place of the newcomer in its slot") {
  Scene scene;
  scene.begin_elastic(three);
  const Seats next = {
      {{0}, "a", 0, 2, 0, 2, {1}}, {{1}, "a", 1, 2, 0, 1, {4}}, {{2}, "127.0.0.1", 0, 1, 1, 2, {3}}};
  scene.rounds.begin(next);
  scene.take();
  CHECK(scene.answer(scene.ask("a:1")).empty());  // worker 2: a newcomer is not through with hvd.init
  CHECK(scene.take() == Told{});
}

TEST_CASE("who has no place in the next world is not answered, but ended") {
  Scene scene;
  scene.begin_elastic(three);
  const auto asks = scene.ask("a:1");
  scene.take();
  scene.rounds.begin({{{0}, "a", 0, 1, 0, 2, {1}}, {{1}, "127.0.0.1", 0, 1, 1, 2, {3}}});
  CHECK(scene.take() == Told{});
  scene.rounds.dismiss({2});
  CHECK(scene.take() == Told{"hopeless 2"});
  scene.rounds.dismiss({3});
  CHECK(scene.take() == Told{});
  scene.ask("127.0.0.1:0");
  CHECK(scene.take() == Told{"hopeless 3"});
  CHECK(scene.answer(asks).empty());
}

TEST_CASE("who is within hvd.init of a world that is over cannot come to the next") {
  Scene scene;
  scene.begin_elastic(three);
  for (const auto* name : {"a:0", "a:1", "127.0.0.1:0"}) scene.ask(name);
  scene.rounds.begin(three);
  CHECK(scene.answers.size() == 3);
  scene.rounds.arrived({0});
  scene.rounds.initialised(1, 0);
  scene.take();
  scene.rounds.begin(three);
  CHECK(scene.take() == Told{"hopeless 1", "hopeless 3"});
}

TEST_CASE("ranks that have never spoken of Horovod are left alone: they are no program of Horovod") {
  Scene scene;
  scene.rounds.begin(three);
  scene.rounds.begin({three[0], three[2]});
  scene.rounds.dismiss({2});
  CHECK(scene.take() == Told{});
}

TEST_CASE("a local rank that a newcomer has now is asked by the survivor who had it") {
  Scene scene;
  scene.begin_elastic(three);
  scene.take();
  // The first slot of a is stopped, and a third one opened.
  const Seats next = {{{0}, "a", 0, 2, 0, 1, {2}}, {{1}, "a", 1, 2, 0, 1, {4}}};
  scene.rounds.begin(next);
  scene.rounds.arrived({1});
  const auto asks = scene.ask("a:1");
  CHECK(scene.answer(asks) == "0,2,0,2,0,1");
}

}  // namespace
}  // namespace trainrun::rendezvous
