#include "agent_scene.h"

using namespace trainrun;

namespace {

void elastic(Opening& opening) { opening.job.elastic = true; }

}  // namespace

TEST_SUITE("leaving") {
  TEST_CASE("an elastic agent that is told to go says so and serves on; the second time it goes") {
    AgentScene scene(elastic);
    scene.start(1, {"/bin/sleep", "1000"});
    scene.until_said("started 1");
    ::kill(scene.watcher, SIGUSR1);  // it hands signals on
    scene.until_said("leaving the agent got SIGUSR1");
    ::kill(scene.agent_pid, SIGTERM);
    scene.until_said("leaving the agent got SIGTERM");
    scene.start(2, {"/bin/sleep", "1000"});
    scene.until_said("started 2");
    ::kill(scene.agent_pid, SIGUSR1);
    ::kill(scene.watcher, SIGUSR2);
    scene.until_said("note the agent got SIGUSR2, which means nothing to this job");
    scene.link->send(wire::Ping{1});
    scene.until_said("pong 1");
    ::kill(scene.agent_pid, SIGINT);
    scene.until_said("note the agent got SIGINT and ends its ranks");
    scene.run([&] { return scene.closed; });
    CHECK(scene.wait_for_watcher() == 1);
    for (const auto worker : {1U, 2U}) CHECK_FALSE(is_alive(scene.pids[worker]));
    CHECK(std::count_if(scene.said.begin(), scene.said.end(),
                        [](const auto& line) { return line.starts_with("leaving"); }) == 2);
  }

  TEST_CASE("a launcher that does nothing about it is not waited for without end") {
    AgentScene scene([](Opening& opening) { elastic(opening), opening.job.grace_ms = 100; });
    scene.start(1, {"/bin/sleep", "1000"});
    scene.until_said("started 1");
    const auto before = io::Loop::now();
    ::kill(scene.agent_pid, SIGTERM);
    scene.until_said("leaving the agent got SIGTERM");
    scene.until_said("note the agent got SIGTERM and ends its ranks");
    CHECK(io::Loop::now() - before >= milliseconds(2100));
    CHECK(scene.wait_for_watcher() == 1);
    CHECK_FALSE(is_alive(scene.pids[1]));
  }

  TEST_CASE("an agent that does not understand its launcher says so, and its ranks' end is not theirs") {
    AgentScene scene;
    scene.start_shell(1, "trap 'exit 3' TERM; echo $$; while :; do sleep 0.1; done");
    const auto worker = scene.numbers(1, 1);
    scene.link->send(wire::Hello{});
    scene.run([&] { return scene.closed; });
    CHECK(scene.said.back() == "note the agent got a message that it does not know and ends its ranks");
    CHECK(scene.wait_for_watcher() == 1);
    CHECK_FALSE(is_alive(worker[0]));
  }

  TEST_CASE("after it is stopped in time nothing more is said") {
    AgentScene scene(elastic);
    ::kill(scene.agent_pid, SIGTERM);
    scene.until_said("leaving the agent got SIGTERM");
    scene.stop();
    CHECK(scene.stopped);
    CHECK(scene.wait_for_watcher() == 0);
    CHECK(scene.said.size() == 1);
  }

  TEST_CASE("HUP and QUIT end as TERM does, and leave the ranks their grace") {
    ::signal(SIGHUP, SIG_DFL);  // as it is without nohup
    for (const auto& [number, name] : {std::pair(SIGHUP, "SIGHUP"), std::pair(SIGQUIT, "SIGQUIT")}) {
      CAPTURE(name);
      char file[] = "/tmp/leaving_test.XXXXXX";
      const Fd heard(::mkstemp(file));
      REQUIRE(heard);
      AgentScene scene;
      scene.start(1, {"/bin/sh", "-c",
                      "trap 'echo TERM >> \"$0\"; exit' TERM\necho $$; while :; do sleep 0.1; done", file});
      scene.numbers(1, 1);
      ::kill(scene.watcher, number);
      scene.until_said("leaving the agent got " + std::string(name));
      ::kill(scene.agent_pid, SIGTERM);
      scene.until_said("note the agent got SIGTERM and ends its ranks");
      scene.run([&] { return scene.closed; });
      CHECK(scene.wait_for_watcher() == 1);
      CHECK(read_file(file, 100).value_or("") == "TERM\n");
      ::unlink(file);
    }
  }

  TEST_CASE("without elasticity TERM is told and ends, and USR1 and USR2 end nothing") {
    AgentScene scene;
    scene.start(1, {"/bin/sleep", "1000"});
    ::kill(scene.watcher, SIGUSR1);
    scene.until_said("note the agent got SIGUSR1, which means nothing to this job");
    ::kill(scene.watcher, SIGUSR2);
    scene.until_said("note the agent got SIGUSR2, which means nothing to this job");
    scene.link->send(wire::Ping{1});
    scene.until_said("pong 1");
    CHECK(is_alive(scene.pids[1]));
    ::kill(scene.watcher, SIGTERM);
    scene.until_said("leaving the agent got SIGTERM");
    ::kill(scene.watcher, SIGINT);
    scene.until_said("note the agent got SIGINT and ends its ranks");
    CHECK(scene.wait_for_watcher() == 1);
    CHECK_FALSE(is_alive(scene.pids[1]));
  }

  TEST_CASE("a signal to agent and watcher is one, and what ranks say after it is heard") {
    AgentScene scene;
    scene.start_shell(1, "exec 2>/dev/null; trap 'echo 7; exit' TERM; echo $$; while :; do sleep 0.1; done");
    scene.numbers(1, 1);
    ::kill(scene.agent_pid, SIGTERM);
    ::kill(scene.watcher, SIGTERM);
    scene.until_said("leaving the agent got SIGTERM");
    scene.link->send(wire::Signal{{WorkerId{1}}, SIGTERM});
    CHECK(scene.numbers(1, 2)[1] == 7);
    scene.stop();
    CHECK(scene.stopped);
    CHECK(scene.wait_for_watcher() == 0);
    CHECK(std::count_if(scene.said.begin(), scene.said.end(),
                        [](const auto& line) { return line.starts_with("leaving"); }) == 1);
  }
}
