// What an order to end finds: workers that wait for their start, that run, that have just died.
#include "agent_scene.h"

using namespace trainrun;

TEST_SUITE("start_queue") {
  TEST_CASE("an order to end overtakes the starts that wait, and none of them happens") {
    AgentScene scene;
    constexpr std::uint32_t count = 300;
    for (std::uint32_t id = 1; id <= count; ++id) scene.start(id, {"/bin/sleep", "1000"});
    scene.until_said("started 1");
    scene.link->send(wire::Signal{{}, SIGKILL, true, true});
    scene.run([&] {
      return std::count_if(scene.said.begin(), scene.said.end(), [](const auto& line) {
               return line.starts_with("not started ") || line.starts_with("finished ");
             }) == count;
    });
    CHECK(scene.pids.size() < count);
    CHECK(scene.place("not started 300 none " + std::to_string(ECANCELED)) < scene.said.size());
    for (const auto& [id, pid] : scene.pids) CHECK_FALSE(is_alive(pid));
  }

  TEST_CASE("one that is named is not started, the others are; a signal that ends nobody cancels nothing") {
    AgentScene scene;
    scene.link->send(wire::Pause{true});  // nothing is started while the job is stopped
    for (const std::uint32_t id : {1U, 2U, 3U}) scene.start(id, {"/bin/sleep", "1000"});
    scene.link->send(wire::Signal{{}, SIGCONT, false, false});
    scene.link->send(wire::Signal{{WorkerId{2}}, SIGKILL, false, true});
    scene.until_said("not started 2 none " + std::to_string(ECANCELED));
    CHECK(scene.pids.empty());
    scene.link->send(wire::Pause{false});
    scene.until_said("started 1");
    scene.until_said("started 3");
    CHECK_FALSE(scene.pids.contains(2));
  }

  TEST_CASE("what was sent to a worker while it lived is told with its end, in its order and no other") {
    AgentScene scene;
    scene.start_shell(1, "exec sleep 1000");
    scene.start_shell(2, "kill -KILL $$");
    for (const auto* what : {"started 1", "exited 2"}) scene.until_said(what);
    scene.link->send(wire::Signal{{}, SIGTERM, false, true});
    scene.until_said("exited 1");
    CHECK(scene.signalled[1].contains(SIGTERM));
    CHECK(scene.signalled[2] == SignalSet{});
  }

  TEST_CASE("one that is dead and not reaped when the signal comes did not get it") {
    AgentScene scene;
    scene.start_shell(1, "echo $$; exec sleep 1000");
    const auto pid = scene.numbers(1, 1).front();
    ::kill(scene.agent_pid, SIGSTOP);  // it hears of both at once
    ::kill(pid, SIGSEGV);
    scene.link->send(wire::Signal{{}, SIGTERM, false, true});
    scene.until_gone(pid);
    ::kill(scene.agent_pid, SIGCONT);
    scene.until_said("exited 1");
    CHECK(scene.signalled[1] == SignalSet{});
  }
}
