// Ranks that outlive their world, as processes, under a launcher that the test plays.
#include <chrono>
#include <random>

#include "tests/unit/comm/fleet.h"

using namespace trainrun;

namespace {

// Announces a change, with `worker` as one that is to go, and returns once that one has heard it: its ear is
// another connection than that of the orders.
void warn(Fleet& fleet, rendezvous::Change change, std::uint32_t worker) {
  fleet.server.say([=, generation = fleet.generation](rendezvous::Service& service) {
    service.announce({generation}, change, {worker}, "hosts will change");
  });
  for (;;) {
    fleet.tell(worker, "stop?");
    const bool heard = fleet.hears(worker, "st") == "stop";
    fleet.hears(worker, "stop? ");
    if (heard) return;
  }
}

std::vector<std::string> python(const std::string& program) {
  return {"/usr/bin/python3", TRAINRUN_SOURCE "/tests/workers/" + program};
}
std::vector<std::string> for_python() {
  return {"PYTHONPATH=" TRAINRUN_SOURCE "/comm/python", "TRAINRUN_COMM_LIBRARY=" TRAINRUN_COMM_LIBRARY,
          "PYTHONDONTWRITEBYTECODE=1", "ASAN_OPTIONS=detect_leaks=0", TRAINRUN_PRELOAD};
}

}  // namespace

TEST_CASE("survivors and a new member go on from the last commit, over Gloo and in memory") {
  bool one_host = false;
  SUBCASE("over Gloo") {}
  SUBCASE("in memory") { one_host = true; }
  Fleet fleet(3, {TRAINRUN_ELASTIC_WORKER}, {}, one_host);
  fleet.all_hear("formed generation 1");
  for (const char* order : {"step", "step", "commit", "step"}) fleet.tell_all(order);
  fleet.all_hear("step generation 1 rank");
  fleet.all_hear("commit");
  fleet.all_hear("steps 3 sum 9");
  fleet.kill(2);
  for (const std::uint32_t worker : {1, 3}) fleet.tell(worker, "step");
  fleet.all_wait({1, 3});
  fleet.begin({1, 3, 4});
  fleet.spawn(4);
  CHECK(fleet.hears(1, "formed") == "formed generation 2 rank 0 of 3 steps 2 sum 6");
  CHECK(fleet.hears(3, "formed") == "formed generation 2 rank 1 of 3 steps 2 sum 6");
  CHECK(fleet.hears(4, "formed") == "formed generation 2 rank 2 of 3 steps 2 sum 6");
  fleet.tell_all("step");
  fleet.all_hear("steps 3 sum 9");
  fleet.tell_all("end");
  fleet.all_hear("finished");
  for (const auto worker : fleet.workers()) CHECK(fleet.exit_code(worker) == 0);
}

TEST_CASE("the newest snapshot wins, whichever survivor has it") {
  Fleet fleet(3);
  fleet.tell_all("step");
  fleet.tell_all("commit");
  fleet.tell_all("step");
  fleet.all_hear("steps 2");
  fleet.tell(2, "save");  // it got there, the others did not
  fleet.hears(2, "save");
  fleet.kill(3);
  for (const std::uint32_t worker : {1, 2}) fleet.tell(worker, "step");
  fleet.all_wait({1, 2});
  fleet.begin({1, 2});
  for (const std::uint32_t worker : {1, 2}) {
    fleet.hears(worker, "reset 3 2");
    CHECK(fleet.hears(worker, "formed").find("of 2 steps 2 sum 6") != std::string::npos);
  }
}

TEST_CASE("a world grows when its members were told, and only then; nothing is lost by it") {
  Fleet fleet(2);
  for (const char* order : {"step", "commit", "check", "step"}) fleet.tell_all(order);
  fleet.all_hear("steps 2");
  warn(fleet, rendezvous::Change::added,
       2);  // one may hear it later than the other: the check decides for all
  fleet.tell_all("check");
  fleet.all_wait({1, 2});
  fleet.begin({1, 2, 3});
  fleet.spawn(3);
  for (const std::uint32_t worker : {1, 2, 3})
    CHECK(fleet.hears(worker, "formed").find("of 3 steps 2 sum 4") != std::string::npos);
}

TEST_CASE("a newcomer asks for its place while the others work, and comes to the world that has one for it") {
  Fleet fleet(2);
  fleet.tell_all("step");
  fleet.tell_all("commit");
  fleet.spawn_newcomer(3);
  fleet.newcomer_asks(3);
  fleet.tell_all("step");
  fleet.all_hear("steps 2");
  warn(fleet, rendezvous::Change::added, 2);
  fleet.tell_all("check");
  fleet.all_wait({1, 2});
  fleet.begin({1, 2, 3});
  for (const std::uint32_t worker : {1, 2, 3})
    CHECK(fleet.hears(worker, "formed generation 2").find("of 3 steps 2 sum 4") != std::string::npos);
}

TEST_CASE("a newcomer that is not wanted any more is told so") {
  Fleet fleet(1);
  fleet.spawn_newcomer(2);
  fleet.newcomer_asks(2);
  fleet.server.say([](rendezvous::Service& service) { service.dismiss({2}); });
  fleet.hears(2, "removed");
  CHECK(fleet.exit_code(2) == 0);
}

TEST_CASE("one that was dismissed ends without failure, and the others go on") {
  Fleet fleet(3);
  fleet.tell_all("step");
  fleet.tell_all("commit");
  fleet.all_hear("commit");
  warn(fleet, rendezvous::Change::leaving, 3);
  for (const std::uint32_t worker : {1, 2}) {
    fleet.tell(worker, "stop?");
    CHECK(fleet.hears(worker, "st") == "stay");
  }
  fleet.tell_all("check");
  fleet.all_wait({1, 2, 3});
  fleet.server.say([](rendezvous::Service& service) { service.dismiss({3}); });
  fleet.hears(3, "removed");
  CHECK(fleet.exit_code(3) == 0);
  fleet.begin({1, 2});
  for (const std::uint32_t worker : {1, 2})
    CHECK(fleet.hears(worker, "formed").find("of 2 steps 1 sum 3") != std::string::npos);
}

TEST_CASE("states that differ are told apart by name, and that is not tried again") {
  Fleet fleet(1);
  fleet.hears(1, "formed generation 1");
  warn(fleet, rendezvous::Change::added, 1);
  fleet.begin({1, 2});
  fleet.tell(1, "check");
  fleet.spawn(2, {"extra"});
  const auto said = fleet.hears(1, "failed");
  CHECK(said == "failed Mismatch: the states differ: rank 0 has less, rank 1 has 'extra' of 40 bytes");
  CHECK(fleet.hears(2, "failed") == said);
  CHECK(fleet.exit_code(1) == 3);
}

TEST_CASE("a generation that fails before it is complete is followed by another") {
  Fleet fleet(3);
  fleet.tell_all("step");
  fleet.tell_all("commit");
  fleet.all_hear("commit");
  fleet.kill(3);
  for (const std::uint32_t worker : {1, 2}) fleet.tell(worker, "step");
  fleet.all_wait({1, 2});
  fleet.begin({1, 2, 4});  // 4 never comes
  fleet.lost(4);
  fleet.all_wait({1, 2});
  fleet.begin({1, 2});
  for (const std::uint32_t worker : {1, 2})
    CHECK(fleet.hears(worker, "formed").find("generation 3 rank") != std::string::npos);
}

TEST_CASE("without a launcher that numbers workers a failure is final, and keeps its own words") {
  Fleet fleet(2);
  fleet.all_hear("formed");
  fleet.kill(2);
  fleet.server.say([](rendezvous::Service& service) {
    service.begin_generation({9}, {0, 1, {}, {}}, io::Loop::now());
  });
  fleet.tell(1, "step");
  const auto said = fleet.hears(1, "failed");
  INFO(said);
  CHECK(said.find("failed PeerLost") == 0);
  CHECK(said.find("rank 1 on host was lost: was killed by SIGKILL") != std::string::npos);
  CHECK(said.find("no launcher stands behind this server") != std::string::npos);
  CHECK(fleet.exit_code(1) == 3);
}

TEST_CASE("whoever is killed, whenever: no sample of an epoch is lost or taken twice") {
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Fleet fleet(3, {TRAINRUN_ELASTIC_WORKER}, {}, seed % 2 == 0);
    fleet.tell_all("epoch 1000000");
    std::uint32_t last = 3;
    for (int round = 0; round < 4; ++round) {
      auto workers = fleet.workers();
      for (auto batches = 1 + random() % 14; batches > 0; --batches) fleet.all_hear("batch");
      std::vector<std::uint32_t> victims{workers[random() % workers.size()]};
      if (random() % 3 == 0 && workers.size() > 2) victims.push_back(workers[random() % workers.size()]);
      for (const auto victim : victims)
        if (std::erase(workers, victim) > 0) fleet.kill(victim);
      fleet.all_wait(workers);
      const auto survivors = workers;
      for (auto added = 1 + random() % 2; added > 0; --added) workers.push_back(++last);
      fleet.begin(workers);
      for (const auto worker : workers)
        if (std::find(survivors.begin(), survivors.end(), worker) == survivors.end()) fleet.spawn(worker);
      fleet.tell_all("epoch 1000000");  // a survivor's order was interrupted, it needs it again
    }
    // The epochs that were disturbed, and one that was not.
    for (const auto worker : fleet.workers())
      for (int epoch = 0; epoch < 2; ++epoch) fleet.hears(worker, "wrong");
    for (std::uint32_t worker = 1; worker <= last; ++worker) {
      const auto& said = fleet.transcript(worker);
      for (auto at = said.find("wrong "); at != std::string::npos; at = said.find("wrong ", at + 1))
        CHECK_MESSAGE(said.substr(at, 8) == "wrong 0\n", "worker ", worker);
    }
  }
}

TEST_CASE("the Python package has every operation, on groups too") {
  for (const bool one_host : {true, false}) {
    Fleet fleet(4, python("group_worker.py"), for_python(), one_host);
    fleet.all_hear("ok ");
    for (const auto worker : fleet.workers()) CHECK(fleet.exit_code(worker) == 0);
  }
}

TEST_CASE("works of the Python package end, are heard of, and say what went wrong") {
  for (const bool one_host : {true, false}) {
    Fleet fleet(4, python("works_worker.py"), for_python(), one_host);
    fleet.all_hear("ok ");
    for (const auto worker : fleet.workers()) CHECK(fleet.exit_code(worker) == 0);
  }
}

// It does not meet the others first, who would hear that it has left, and later.
TEST_CASE("Python: others hear of a rank that dies of an exception by the end of its process") {
  for (const char* way : {"plain", "elastic"}) {
    auto words = python("raising.py");
    words.emplace_back(way);
    Fleet fleet(3, words, for_python(), true);
    for (const std::uint32_t worker : {1, 3}) CHECK(fleet.hears(worker, "heard ") == "heard PeerLost 1");
    CHECK(fleet.exit_code(2) == 1);
  }
}

TEST_CASE("the Python package does the same, with values beside buffers") {
  Fleet fleet(2, python("elastic_worker.py"), for_python());
  for (const char* order : {"step", "commit", "step"}) fleet.tell_all(order);
  fleet.all_hear("steps 2 sum 4 note after 2 sampler 0 6");
  fleet.kill(2);
  fleet.tell(1, "step");
  fleet.all_wait({1});
  fleet.begin({1, 3});
  fleet.spawn(3);
  CHECK(fleet.hears(1, "reset") == "reset 2 2");
  fleet.all_hear("of 2 steps 1 sum 2 note after 1 sampler 0 3");
  warn(fleet, rendezvous::Change::leaving, 3);
  fleet.tell_all("check");
  fleet.all_wait({1, 3});
  fleet.server.say([](rendezvous::Service& service) { service.dismiss({3}); });
  fleet.hears(3, "removed");
  CHECK(fleet.exit_code(3) == 0);
  fleet.begin({1});
  fleet.hears(1, "formed generation 3 rank 0 of 1 steps 1");
  fleet.tell(1, "order");
  const auto order = fleet.hears(1, "order [");
  fleet.tell(1, "end");
  fleet.hears(1, "finished");
  CHECK(fleet.exit_code(1) == 0);
  Fleet other(1);  // in C++ the sampler's order is the same
  other.tell(1, "order");
  CHECK(other.hears(1, "order [") == order);
}

TEST_CASE(
    "when a world fails to form after a planned change, Python's values and buffers are both of the last "
    "commit") {
  Fleet fleet(2, python("elastic_worker.py"), for_python());
  for (const char* order : {"step", "commit", "step"}) fleet.tell_all(order);
  fleet.all_hear("steps 2 sum 4 note after 2 sampler 0 6");
  warn(fleet, rendezvous::Change::added, 1);
  fleet.tell_all("check");
  fleet.all_wait({1, 2});
  fleet.begin({1, 2, 3});  // 3 never comes
  fleet.lost(3);
  fleet.all_wait({1, 2});
  fleet.begin({1, 2});
  for (const std::uint32_t worker : {1, 2})
    CHECK(fleet.hears(worker, "formed generation 3").find("of 2 steps 1 sum 2 note after 1 sampler 0 3") !=
          std::string::npos);
}

TEST_CASE("Python: a world that is over tells its place and is no other world, and does nothing more") {
  Fleet fleet(2, python("kept_world.py"), for_python(), true);
  fleet.all_hear("commit before Invalid: the state is in no world yet");
  fleet.all_hear("in world 1");
  fleet.kill(2);
  fleet.all_wait({1});
  fleet.begin({1});
  fleet.hears(1, "kept 1 rank 0 of 2 shm");
  fleet.hears(1, "barrier Invalid: the world of generation 1 is over");
  fleet.hears(1, "kept 2 rank 0 of 1 local");
  fleet.hears(1, "barrier Invalid: the world of generation 2 is over");
  fleet.hears(1, "commit after Invalid");
  for (const char* time :
       {"None 0", "0.0001 1", "90 90000", "1000000000000.0 1000000000000", "inf 1000000000000"})
    CHECK(fleet.hears(1, "time ") == std::string("time ") + time);
  CHECK(fleet.exit_code(1) == 0);
}

TEST_CASE("a survivor waits for a newcomer as long as the launcher does, and keeps its process") {
  Fleet fleet(2, {TRAINRUN_ELASTIC_WORKER}, {"TRAINRUN_INIT_TIMEOUT=5"});
  fleet.all_hear("formed generation 1");
  fleet.tell_all("step");
  fleet.tell_all("commit");
  fleet.all_hear("commit");
  fleet.tell(1, "step");
  fleet.kill(2);
  fleet.all_wait({1});
  fleet.begin({1, 3});
  // The newcomer loads for longer than what a rank by itself would wait.
  auto clock = fleet.server.client(2);
  CHECK_FALSE(clock.wait({"never put"}, seconds(6)));
  fleet.spawn(3);
  CHECK(fleet.hears(1, "formed") == "formed generation 2 rank 0 of 2 steps 1 sum 2");
  CHECK(fleet.hears(3, "formed") == "formed generation 2 rank 1 of 2 steps 1 sum 2");
}

TEST_CASE("a forked child of a Python rank ends in the ordinary way, and the rank goes on") {
  Fleet fleet(2, python("forked.py"), for_python());
  fleet.hears(1, "child 7");
  fleet.all_hear("sum 2");
  for (const auto worker : fleet.workers()) CHECK(fleet.exit_code(worker) == 0);
}

TEST_CASE("in place, four ranks are back at work soon after a death") {
  Fleet fleet(4);
  fleet.tell_all("step");
  fleet.tell_all("commit");
  fleet.all_hear("commit");
  for (int round = 0; round < 3; ++round) {
    auto workers = fleet.workers();
    const auto victim = workers.back();
    workers.pop_back();
    for (const auto worker : workers) fleet.tell(worker, "step");
    const auto died = std::chrono::steady_clock::now();
    fleet.kill(victim);
    fleet.all_wait(workers);
    const auto left = std::chrono::steady_clock::now();
    workers.push_back(victim + 1);
    fleet.begin(workers);
    fleet.spawn(victim + 1);
    fleet.all_hear("formed");
    const auto formed = std::chrono::steady_clock::now();
    fleet.tell_all("step");
    fleet.all_hear("step");
    const auto stepped = std::chrono::steady_clock::now();
    const auto ms = [&](auto time) { return std::chrono::duration_cast<milliseconds>(time - died).count(); };
    MESSAGE("survivors ask for their place after ", ms(left), " ms, the new world is there after ",
            ms(formed), " ms, its first allreduce after ", ms(stepped), " ms");
  }
}
