#include <algorithm>
#include <filesystem>

#include "agent_scene.h"

using namespace trainrun;

namespace {

void grace_of(Opening& opening, std::uint32_t ms) { opening.job.grace_ms = ms; }

// Shell text that leaves a daemon, which writes its pid and lets the worker's pipes go. The shell waits for
// the daemon's parent, so that after the next line of the script the daemon is the agent's child.
std::string daemon(const std::string& command, const std::string& before = "") {
  return "(" + command + " sh -c '" + before + "echo $$; exec sleep 1000 >/dev/null 2>&1' &)\n";
}
const std::string ignores_term = "trap \"\" TERM; ";
const std::string unmarked = "env -u TRAINRUN_WORKER setsid";

std::size_t descriptors_of(pid_t pid) {
  const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

TEST_SUITE("sweep") {
  TEST_CASE("what dead workers left is ended, and what is of the living is not") {
    AgentScene scene;
    // 1 lives on, with a daemon that fell to the agent and a child. 2 and 3 die and leave daemons.
    scene.start_shell(1,
                      daemon("setsid") + "sleep 1000 >/dev/null 2>&1 &\necho $!; echo $$; exec sleep 1000");
    scene.start_shell(2, daemon("setsid") + daemon("env -u TRAINRUN_WORKER") + daemon(unmarked) + "exit 1");
    scene.start_shell(3, daemon("setsid") + "exit 1");
    const auto one = scene.numbers(1, 3), two = scene.numbers(2, 3), three = scene.numbers(3, 1);
    scene.until_said("finished 2");
    scene.until_said("finished 3");
    const auto leads_session = [](pid_t pid) { return agent::process_stat(pid)->session == pid; };
    std::vector<pid_t> daemons(two);
    daemons.push_back(three[0]);
    for (const auto pid : one) {
      if (pid != scene.pids[1] && leads_session(pid)) daemons.push_back(pid);
    }
    CHECK(daemons.size() == 5);
    for (const auto pid : daemons) {
      const auto stat = agent::process_stat(pid);
      REQUIRE(stat);
      CHECK(stat->parent == scene.agent_pid);
    }
    const auto unnamed = *std::find_if(
        two.begin(), two.end(), [&](pid_t pid) { return !agent::worker_mark(pid) && leads_session(pid); });

    scene.sweep(1, {2});
    const auto first = scene.swept(1);
    CHECK(first.leftovers == 2);  // by its mark, and by its session
    CHECK_FALSE(first.killed);
    CHECK(first.stuck == 0);
    for (const auto pid : two) CHECK(is_alive(pid) == (pid == unnamed));
    for (const auto pid : {one[0], one[1], one[2], three[0]}) CHECK(is_alive(pid));

    scene.sweep(2, {});
    CHECK(scene.swept(2).leftovers == 1);
    CHECK_FALSE(is_alive(three[0]));
    for (const auto pid : {one[0], one[1], one[2], unnamed}) CHECK(is_alive(pid));

    // Worker 1 does not end itself when it is named by mistake.
    scene.sweep(3, {1});
    CHECK(scene.swept(3).leftovers == 0);
    for (const auto pid : one) CHECK(is_alive(pid));

    scene.stop();
    REQUIRE(scene.stopped);
    CHECK(scene.stopped->leftovers == 4);
    for (const auto pid : {one[0], one[1], one[2], unnamed}) CHECK_FALSE(is_alive(pid));
  }

  TEST_CASE("nothing left is answered at once") {
    AgentScene scene;
    scene.sweep(1, {});
    scene.link->send(wire::Ping{1});
    scene.until_said("pong 1");
    CHECK(scene.said == std::vector<std::string>{"swept 1", "pong 1"});
    CHECK(scene.sweeps[1].leftovers == 0);
    scene.start_shell(1, "exec sleep 1000");
    scene.sweep(2, {});
    scene.link->send(wire::Ping{2});
    scene.until_said("pong 2");
    CHECK(scene.place("swept 2") < scene.place("pong 2"));
    CHECK(scene.sweeps[2].leftovers == 0);
  }

  TEST_CASE("with no worker alive all goes, and a worker that starts meanwhile is not waited for nor hurt") {
    AgentScene scene([](Opening& opening) { grace_of(opening, 300); });
    scene.start_shell(1, daemon(unmarked, ignores_term) + "exit 1");
    const auto left = scene.numbers(1, 1);
    scene.until_said("finished 1");
    scene.sweep(1, {1});
    scene.start_shell(2, daemon(unmarked) + "echo $$; exec sleep 1000");
    const auto two = scene.numbers(2, 2);
    const auto answer = scene.swept(1);
    CHECK(answer.leftovers == 1);
    CHECK(answer.killed);
    CHECK(scene.place("started 2") < scene.place("swept 1"));
    CHECK_FALSE(is_alive(left[0]));
    CHECK(is_alive(two[0]));
    CHECK(is_alive(two[1]));
  }

  TEST_CASE("a whole tree goes, whose members ignore TERM, are stopped, or are not waited for") {
    AgentScene scene([](Opening& opening) { grace_of(opening, 200); });
    scene.start_shell(1, "(setsid sh -c '" + ignores_term +
                             "true & sleep 1000 >/dev/null 2>&1 & echo $!; sh -c \"echo \\$\\$; kill -STOP "
                             "\\$\\$\" & echo $$; exec >/dev/null 2>&1; while :; do sleep 1000; done' &)\n"
                             "exit 0");
    const auto left = scene.numbers(1, 3);
    scene.until_said("exited 1");
    scene.sweep(7, {1});
    const auto answer = scene.swept(7);
    CHECK(answer.leftovers >= 4);
    CHECK(answer.killed);
    for (const auto pid : left) CHECK_FALSE(is_alive(pid));
  }

  TEST_CASE("several sweeps at once, and one that does not wait") {
    AgentScene scene;  // with a grace of a minute, which nobody waits for
    scene.start_shell(1, daemon("setsid", ignores_term) + "exit 0");
    scene.start_shell(2, daemon("setsid", ignores_term) + "exit 0");
    scene.start_shell(3, "exec sleep 1000");
    const auto one = scene.numbers(1, 1), two = scene.numbers(2, 1);
    scene.until_said("finished 1");
    scene.until_said("finished 2");
    scene.sweep(1, {1});
    scene.sweep(2, {2});
    scene.sweep(3, {2}, true);
    CHECK(scene.swept(3).killed);
    CHECK(scene.swept(2).leftovers == 1);
    CHECK_FALSE(scene.swept(2).killed);  // another sweep did
    CHECK_FALSE(is_alive(two[0]));
    CHECK(is_alive(one[0]));
    CHECK_FALSE(scene.sweeps.contains(1));
    scene.link->send(wire::Signal{{WorkerId{1}}, SIGKILL, true});  // deep, but of worker 1 alone
    CHECK(scene.swept(1).leftovers == 1);
    CHECK_FALSE(is_alive(one[0]));
    CHECK(is_alive(scene.pids[3]));
  }

  TEST_CASE("the mark of a worker cannot be replaced") {
    AgentScene scene([](Opening& opening) { opening.job.env.emplace_back("TRAINRUN_WORKER", "8"); });
    scene.start(5, {"/bin/sh", "-c", "echo $TRAINRUN_WORKER"}, {{"TRAINRUN_WORKER", "9"}});
    CHECK(scene.numbers(5, 1)[0] == 5);
  }

  TEST_CASE("two hundred generations leave nothing in the agent") {
    constexpr std::uint32_t generations = 200;
    AgentScene scene;
    std::size_t before = 0;
    for (std::uint32_t g = 1; g <= generations; ++g) {
      scene.link->send(wire::HoldPort{0, 0});
      scene.start(g, {"/bin/true"});
      scene.until_said("finished " + std::to_string(g));
      scene.sweep(g, g % 2 == 0 ? std::vector<std::uint32_t>{g} : std::vector<std::uint32_t>{});
      CHECK(scene.swept(g).leftovers == 0);
      if (g == 10) before = descriptors_of(scene.agent_pid);
    }
    CHECK(descriptors_of(scene.agent_pid) == before);
    CHECK(scene.ports.size() == generations);
    for (std::size_t i = 1; i < scene.ports.size(); ++i) {
      CHECK(scene.ports[i].error == 0);
      CHECK(scene.ports[i].port != scene.ports[i - 1].port);
    }
    // A worker that is remembered is not started again: by that it shows that none is.
    scene.said.clear();
    for (std::uint32_t g = 1; g <= generations; ++g) scene.start(g, {"/bin/true"});
    for (std::uint32_t g = 1; g <= generations; ++g) scene.until_said("finished " + std::to_string(g));
    scene.said.clear();
    scene.start(1, {"/bin/true"});
    scene.link->send(wire::Ping{1});
    scene.until_said("pong 1");
    CHECK(scene.said == std::vector<std::string>{"pong 1"});
  }

  TEST_CASE("a swept worker whose output is not through yet is forgotten when it is") {
    AgentScene scene;
    // An orphan that nobody can name holds the pipes, and is spared.
    scene.start_shell(1, "(env -u TRAINRUN_WORKER setsid sh -c 'echo $$; exec sleep 1000' &)\nexit 0");
    scene.start_shell(2, "exec sleep 1000");
    const auto left = scene.numbers(1, 1);
    scene.until_said("exited 1");
    scene.sweep(1, {1});
    CHECK(scene.swept(1).leftovers == 0);
    CHECK(is_alive(left[0]));
    scene.until_said("finished 1");
    CHECK(scene.place("swept 1") < scene.place("finished 1"));
    scene.start(1, {"/bin/true"});
    scene.run([&] {
      return scene.pids[1] != 0 && std::count(scene.said.begin(), scene.said.end(), "finished 1") == 2;
    });
  }
}
