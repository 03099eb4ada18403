#include "agent_scene.h"
#include "launcher/agent/agent.h"

using namespace trainrun;

namespace {

// The watcher waits 2 s longer than this.
void short_timeout(Opening& opening) { opening.greeting.host_timeout_ms = 100; }

// Needs longer to save than the watcher waits for a sign of life.
const std::string saves_for_long =
    "trap 'echo TERM; sleep 3; echo saved >> \"$0\"; exit 0' TERM\necho $$; while :; do sleep 0.1; done";

const std::string leaves_daemon =
    "(setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &)\necho $$; exec sleep 1000";

}  // namespace

TEST_SUITE("watcher") {
  TEST_CASE("an agent that stands still is killed, with all that it had") {
    AgentScene scene(short_timeout);
    scene.start_shell(1, leaves_daemon);
    const auto workers = scene.numbers(1, 2);
    const auto before = io::Loop::now();
    ::kill(scene.agent_pid, SIGSTOP);
    scene.run([&] { return scene.closed; });
    CHECK(io::Loop::now() - before >= seconds(2));
    CHECK(scene.wait_for_watcher() == 70);
    for (const auto pid : workers) CHECK_FALSE(is_alive(pid));
  }

  TEST_CASE("an agent that hangs is killed, with all that it had, though nobody has stopped it") {
    AgentScene scene([](Opening& opening) {
      short_timeout(opening);
      opening.greeting.faults = "agent.port=delay:60000";
    });
    scene.start_shell(1, leaves_daemon);
    const auto workers = scene.numbers(1, 2);
    scene.link->send(wire::HoldPort{});
    scene.run([&] { return scene.closed; });
    CHECK(scene.wait_for_watcher() == 70);
    for (const auto pid : workers) CHECK_FALSE(is_alive(pid));
  }

  TEST_CASE("an agent that goes on in time lives, however often it is stopped") {
    // It also shows that times do not add up: 3 x 1 s are more than 2.1 s.
    AgentScene scene(short_timeout);
    scene.start_shell(1, leaves_daemon);
    const auto workers = scene.numbers(1, 2);
    for (std::uint32_t i = 1; i <= 3; ++i) {
      scene.link->send(wire::Pause{true});
      scene.link->send(wire::Ping{i});
      scene.until_said("pong " + std::to_string(i));
      ::kill(scene.agent_pid, SIGSTOP);
      scene.let_pass(seconds(1));
      ::kill(scene.agent_pid, SIGCONT);
    }
    scene.link->send(wire::Ping{9});
    scene.until_said("pong 9");
    for (const auto pid : workers) CHECK(is_alive(pid));
  }

  TEST_CASE("ranks may use all of a long grace, whether the launcher asked for their end or is gone") {
    for (const bool asked : {true, false}) {
      CAPTURE(asked);
      char file[] = "/tmp/watcher_test.XXXXXX";
      const Fd saved(::mkstemp(file));
      REQUIRE(saved);
      {
        AgentScene scene(short_timeout);
        scene.start(1, {"/bin/sh", "-c", saves_for_long, file});
        scene.numbers(1, 1);
        if (asked) {
          scene.stop();
          REQUIRE(scene.stopped);
          CHECK(scene.stopped->leftovers > 0);
          CHECK_FALSE(scene.stopped->killed);
        } else {
          scene.closed = true;
          scene.link.reset();
        }
        CHECK(scene.wait_for_watcher() == (asked ? 0 : 1));
      }
      CHECK(read_file(file, 100).value_or("") == "saved\n");
      ::unlink(file);
    }
  }

  TEST_CASE("an agent shows life before its launcher has said anything") {
    io::Loop loop;
    auto ends = make_socket_pair();
    REQUIRE(ends);
    agent::Handover handover;
    handover.set_host_timeout(milliseconds(100));
    const agent::Agent agent(loop, std::move(ends->second), Fd(), handover);
    for (int signs = 0; signs < 3; ++signs) {
      const auto last = handover.last_life();
      bool late = false;
      io::Timer limit(loop);
      limit.arm(io::Loop::now() + scene_patience, [&] { late = true; });
      while (handover.last_life() == last && !late) loop.context().run_one();
      CHECK_FALSE(late);
    }
  }

  TEST_CASE("an agent that was stopped together with its watcher lives, though it goes on later") {
    AgentScene scene(short_timeout);
    scene.link->send(wire::Pause{true});
    scene.link->send(wire::Ping{1});
    scene.until_said("pong 1");
    ::kill(scene.agent_pid, SIGSTOP);
    scene.let_pass(milliseconds(200));
    ::kill(scene.watcher, SIGSTOP);
    scene.let_pass(milliseconds(2500));
    ::kill(scene.watcher, SIGCONT);
    scene.let_pass(milliseconds(300));
    ::kill(scene.agent_pid, SIGCONT);
    scene.link->send(wire::Ping{2});
    scene.until_said("pong 2");
    CHECK_FALSE(scene.closed);
  }
}
