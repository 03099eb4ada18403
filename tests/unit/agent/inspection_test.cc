#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent_scene.h"
#include "launcher/agent/process_tree.h"

using namespace trainrun;
namespace fs = std::filesystem;

namespace {

// A folder with a program `gdb` that does what the script says.
struct FakeTool {
  explicit FakeTool(const std::string& script) {
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    std::ofstream(folder + "/gdb") << "#!/bin/sh\n" << script << "\n";
    REQUIRE(::chmod((folder + "/gdb").c_str(), 0700) == 0);
  }
  ~FakeTool() { fs::remove_all(folder); }
  FakeTool(const FakeTool&) = delete;
  FakeTool& operator=(const FakeTool&) = delete;
  std::string folder = "/tmp/tool_test.XXXXXX";
};

void search_in(Opening& opening, const std::string& path) { opening.job.env = {{"PATH", path}}; }

const wire::Inspected& of(const AgentScene& scene, std::uint32_t worker) {
  for (const auto& one : scene.inspected) {
    if (one.worker == WorkerId{worker}) return one;
  }
  FAIL("no answer for worker " << worker);
  return scene.inspected.front();
}

}  // namespace

TEST_SUITE("inspection") {
  TEST_CASE("a stopped worker, one that spins, one that waits and one that writes are told apart") {
    AgentScene scene([](Opening& opening) { search_in(opening, "/nowhere"); });
    scene.start(1, {"/bin/sleep", "1000"});
    scene.start_shell(2, "echo 1; while :; do :; done");
    scene.start(3, {"/bin/sleep", "1000"});
    scene.start_shell(4, "echo 1; /bin/sh -c 'while :; do :; done' & while :; do echo x; done >/dev/null");
    scene.start_shell(5, "exit 0");
    scene.numbers(2, 1);
    scene.numbers(4, 1);
    scene.until_said("started 3");
    scene.until_said("finished 5");
    ::kill(scene.pids[1], SIGSTOP);
    scene.run([&] {
      if (!agent::process_stat(scene.pids[1])->stopped()) scene.loop.post([&] { scene.look(); });
      return agent::process_stat(scene.pids[1])->stopped();
    });
    scene.link->send(wire::Inspect{4, 500});
    scene.link->send(wire::Inspect{5, 0});
    scene.until_said("inspection 5");
    CHECK(scene.place("inspection 4") < scene.place("inspection 5"));
    CHECK(scene.place("inspected 4") < scene.place("inspection 4"));
    CHECK(scene.inspected.size() == 8);
    for (std::size_t i = 0; i < 8; ++i) CHECK(scene.inspected[i].sequence == (i < 4 ? 4 : 5));
    CHECK(of(scene, 1).state == "T");
    CHECK(of(scene, 1).cpu_ms == 0);
    CHECK(of(scene, 2).state == "R");
    CHECK(of(scene, 2).cpu_ms > 20);
    CHECK(of(scene, 3).state == "S");
    CHECK(of(scene, 3).cpu_ms == 0);
    CHECK(of(scene, 3).io_bytes == 0);
    CHECK(of(scene, 4).cpu_ms > 20);
    CHECK(of(scene, 4).io_bytes > 1000);
    // Its stack is only told to root, where the kernel keeps them.
    if (fs::exists("/proc/self/stack") && ::getuid() == 0)
      CHECK(of(scene, 3).stack.find("kernel, thread " + std::to_string(scene.pids[3])) == 0);
    CHECK(agent::process_stat(scene.pids[1])->stopped());
  }

  TEST_CASE("a tool is asked for the stack of what the worker runs, and may not write too much") {
    const FakeTool tool("echo \"asked $*\"; head -c 1000000 /dev/zero | tr '\\0' x | dd bs=1000 2>/dev/null");
    AgentScene scene([&](Opening& opening) { search_in(opening, tool.folder + ":/usr/bin:/bin"); });
    for (std::uint32_t worker = 1; worker <= 6; ++worker)
      scene.start_shell(worker,
                        worker == 1 ? "sleep 1000 >/dev/null 2>&1 & echo $!; wait" : "exec sleep 1000");
    const auto child = scene.numbers(1, 1);
    scene.until_said("started 6");
    scene.until_waiting_in(child[0], "sleep");
    for (std::uint32_t worker = 2; worker <= 6; ++worker) scene.until_waiting_in(scene.pids[worker], "sleep");
    scene.link->send(wire::Inspect{1, 0});
    scene.until_said("inspection 1");
    CHECK(scene.inspected.size() == 6);
    for (std::uint32_t worker = 1; worker <= 6; ++worker) {
      const auto pid = std::to_string(worker == 1 ? child[0] : scene.pids[worker]);
      const auto& stack = of(scene, worker).stack;
      INFO(stack.substr(0, 1000));
      CHECK(stack.find("gdb on process " + pid + ":\nasked -nx -batch ") != std::string::npos);
      CHECK(stack.find(" -p " + pid + " ") != std::string::npos);
      CHECK(stack.size() <= 65536);
      CHECK(stack.size() > 40000);
    }
    scene.sweep(1, {});
    CHECK(scene.swept(1).leftovers == 0);
  }

  TEST_CASE("a tool that hangs is ended with its children, and what it stopped goes on") {
    const FakeTool tool("sleep 1000 & echo $!; kill -STOP $6; wait");
    AgentScene scene([&](Opening& opening) { search_in(opening, tool.folder + ":/usr/bin:/bin"); });
    scene.start(1, {"/bin/sleep", "1000"});
    scene.until_said("started 1");
    scene.until_waiting_in(scene.pids[1], "sleep");
    scene.link->send(wire::Inspect{1, 0});
    scene.until_said("inspection 1");
    const auto& stack = of(scene, 1).stack;
    const auto at = stack.find(", ended after 5 s:\n");
    REQUIRE(at != std::string::npos);
    const auto number = stack.substr(at + 19, stack.find('\n', at + 19) - at - 19);
    const auto pid = parse_unsigned<unsigned>(trim(number));
    REQUIRE(pid);
    scene.until_gone(static_cast<pid_t>(*pid));
    CHECK(is_alive(scene.pids[1]));
    CHECK_FALSE(agent::process_stat(scene.pids[1])->stopped());
  }

  TEST_CASE("gdb itself, where it is installed, leaves a worker as it was") {
    if (!fs::exists("/usr/bin/gdb")) {
      MESSAGE("there is no gdb here");
      return;
    }
    AgentScene scene;
    scene.start(1, {"/bin/sleep", "1000"});
    scene.until_said("started 1");
    scene.until_waiting_in(scene.pids[1], "sleep");
    scene.link->send(wire::Inspect{1, 0});
    scene.until_said("inspection 1");
    const auto& stack = of(scene, 1).stack;
    INFO(stack);
    CHECK(stack.find("gdb on process") != std::string::npos);
    // Where tracing is allowed; a container or Yama may forbid it.
    CHECK((stack.find("#0 ") != std::string::npos || stack.find("ptrace") != std::string::npos));
    CHECK_FALSE(agent::process_stat(scene.pids[1])->stopped());
    ::kill(scene.pids[1], SIGTERM);
    scene.until_said("finished 1");
  }

  TEST_CASE("a tool is nothing that workers left, and ends with the agent") {
    const FakeTool tool("exec sleep 1000");
    AgentScene scene([&](Opening& opening) { search_in(opening, tool.folder + ":/usr/bin:/bin"); });
    scene.start(1, {"/bin/sleep", "1000"});
    scene.until_said("started 1");
    scene.link->send(wire::Inspect{1, 0});
    scene.run([&] {  // until the tool runs beside the worker
      if (agent::descendants(scene.agent_pid).size() < 2) scene.loop.post([&] { scene.look(); });
      return agent::descendants(scene.agent_pid).size() == 2;
    });
    ::kill(scene.pids[1], SIGKILL);
    scene.until_said("finished 1");
    scene.sweep(1, {});
    CHECK(scene.swept(1).leftovers == 0);
    CHECK(agent::descendants(scene.agent_pid).size() == 1);
    scene.stop();
    REQUIRE(scene.stopped);
    CHECK(scene.inspected.empty());
  }
}
