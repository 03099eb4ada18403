#include "launcher/agent/out_of_memory.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "launcher/wire/evidence.h"

using namespace trainrun;
using namespace trainrun::agent;
using Files = std::vector<std::string>;

namespace {

constexpr std::string_view v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
constexpr std::string_view hybrid =
    "30 23 0:26 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n"
    "31 23 0:27 / /sys/fs/cgroup/cpu rw shared:10 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 23 0:28 / /sys/fs/cgroup/memory rw shared:11 - cgroup cgroup rw,memory\n";
constexpr std::string_view container =
    "32 23 0:28 /docker/1f /sys/fs/cgroup/memory ro master:11 - cgroup cgroup rw,memory\n";

// A kernel of our own: its /proc, its memory cgroup and its log.
struct Kernel {
  explicit Kernel(const std::string& pid_namespace = "pid:[4026531836]") {
    REQUIRE(::mkdtemp(place.data()) != nullptr);
    std::filesystem::create_directories(place + "/self/ns");
    std::filesystem::create_directories(place + "/77");
    std::filesystem::create_symlink(pid_namespace, place + "/self/ns/pid");
    write("self/mountinfo", "30 23 0:26 / " + place + "/memory rw - cgroup2 cgroup2 rw\n");
    for (const char* process : {"self", "77"}) write(std::string(process) + "/cgroup", "0::/\n");
    std::filesystem::create_directories(place + "/memory");
    kills(4);
    write("log", "6,1,1,-;Killed process 77 (old)\n");
  }
  ~Kernel() {
    std::error_code ignored;
    std::filesystem::remove_all(place, ignored);
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(place + "/" + name) << text; }
  void kills(int count) { write("memory/memory.events", "oom_kill " + std::to_string(count) + "\n"); }
  void log(const std::string& record) { std::ofstream(place + "/log", std::ios::app) << record; }

  std::string place = "/tmp/out_of_memory_test.XXXXXX";
};

const Instant start{seconds(1000)};

}  // namespace

TEST_SUITE("out of memory") {
  TEST_CASE("the counter of v1 and of v2 is found where it is mounted") {
    CHECK(counter_files("0::/user.slice/a:b.scope\n", v2) ==
          Files{"/sys/fs/cgroup/user.slice/a:b.scope/memory.events"});
    CHECK(counter_files("0::/\n", v2) == Files{"/sys/fs/cgroup/memory.events"});
    CHECK(
        counter_files("9:cpu,cpuacct:/x\n7:memory:/job/7\n0::/job\n", hybrid) ==
        Files{"/sys/fs/cgroup/memory/job/7/memory.oom_control", "/sys/fs/cgroup/unified/job/memory.events"});
  }

  TEST_CASE("where hierarchies are mounted as usual the list of mounts is not needed") {
    const std::string cgroups = "9:cpu,cpuacct:/x\n7:memory:/job/7\n0::/job:2\n";
    CHECK(usual_counter_files(cgroups) ==
          Files{"/sys/fs/cgroup/memory/job/7/memory.oom_control", "/sys/fs/cgroup/job:2/memory.events"});
    CHECK(usual_counter_files("0::/\n") == Files{"/sys/fs/cgroup/memory.events"});
    CHECK(usual_counter_files("0::/../other\n9:cpu:/job\n").empty());
  }

  TEST_CASE("a container sees its own part alone, and names from outside are no paths there") {
    CHECK(counter_files("7:memory:/docker/1f/job\n", container) ==
          Files{"/sys/fs/cgroup/memory/job/memory.oom_control"});
    CHECK(counter_files("7:memory:/docker/1f\n", container) ==
          Files{"/sys/fs/cgroup/memory/memory.oom_control"});
    CHECK(counter_files("7:memory:/docker/1f0/a\n", container) ==
          Files{"/sys/fs/cgroup/memory/memory.oom_control"});
    CHECK(counter_files("7:memory:/elsewhere\n", container) ==
          Files{"/sys/fs/cgroup/memory/memory.oom_control"});
    CHECK(counter_files("0::/../other\n", v2) == Files{"/sys/fs/cgroup/memory.events"});
  }

  TEST_CASE("without a memory hierarchy, or with nonsense, there is none") {
    CHECK(counter_files("7:memory:/job\n", v2).empty());
    CHECK(counter_files("9:cpu:/job\n", hybrid).empty());
    CHECK(counter_files("nonsense\n::\n", "nonsense - cgroup2\n").empty());
  }

  TEST_CASE("a log that can be read is believed alone") {
    Kernel kernel;
    OutOfMemory memory(kernel.place, kernel.place + "/log");
    memory.remember(start);
    kernel.kills(5);
    kernel.log("6,2,2,-;Killed process 78 (neighbour)\n");
    CHECK(memory.evidence(77, start).empty());
    kernel.log("6,3,3,-;Killed process 77 (train)\n");
    CHECK(memory.evidence(77, start) == std::string(wire::kernel_named_it) + "Killed process 77 (train)");
    CHECK(memory.evidence(77, start).empty());  // its number may be given again
  }

  TEST_CASE("the killed process may be one that a worker ran: a guess, told once") {
    Kernel kernel;
    OutOfMemory memory(kernel.place, kernel.place + "/log");
    memory.remember(start);
    CHECK(memory.evidence_within(77, start).empty());
    kernel.log("6,3,3,-;Killed process 78 (train)\n");
    const auto evidence = memory.evidence_within(77, start);
    CHECK(evidence == "the kernel has just killed a process: Killed process 78 (train)");
    CHECK_FALSE(evidence.starts_with(wire::kernel_named_it));
    CHECK(memory.evidence_within(77, start).empty());
    kernel.log("6,3,3,-;Killed process 79 (train)\n");
    memory.look(start);
    CHECK(memory.evidence_within(77, start + seconds(20)).empty());

    OutOfMemory blind(kernel.place, "/no/such/log");
    blind.remember(start);
    CHECK(blind.evidence_within(77, start).empty());
    kernel.kills(5);
    CHECK(blind.evidence_within(77, start).find("killed 1 process ") != std::string::npos);
  }

  TEST_CASE("what the log said long ago of a process with this number is forgotten") {
    Kernel kernel;
    OutOfMemory memory(kernel.place, kernel.place + "/log");
    memory.remember(start);
    kernel.log("6,3,3,-;Killed process 77 (somebody)\n");
    memory.look(start);
    memory.look(start + seconds(100));
    CHECK(memory.evidence(77, start + seconds(100)).empty());
  }

  TEST_CASE("a log that cannot be read, or has other numbers than ours, leaves the counters") {
    for (const bool readable : {false, true}) {
      CAPTURE(readable);
      Kernel kernel(readable ? "pid:[4026532000]" : "pid:[4026531836]");
      OutOfMemory memory(kernel.place, readable ? kernel.place + "/log" : "/no/such/log");
      memory.remember(start);
      CHECK(memory.evidence(77, start).empty());
      kernel.log("6,2,2,-;Killed process 77 (stranger)\n");
      CHECK(memory.evidence(77, start).empty());
      kernel.kills(6);
      const auto evidence = memory.evidence(77, start);
      CHECK(evidence.find("killed 2 processes") != std::string::npos);
      CHECK_FALSE(evidence.starts_with(wire::kernel_named_it));
    }
  }

  TEST_CASE("a counter that rose a while ago explains nothing") {
    Kernel kernel;
    OutOfMemory memory(kernel.place, "/no/such/log");
    memory.remember(start);
    kernel.kills(5);
    memory.look(start + seconds(1));
    CHECK(memory.evidence(77, start + seconds(3)).find("killed 1 process ") != std::string::npos);
    CHECK(memory.evidence(77, start + seconds(20)).empty());
    kernel.kills(6);
    CHECK(memory.evidence(77, start + seconds(21)).find("killed 1 process ") != std::string::npos);
  }

  TEST_CASE("kills are counted in both forms") {
    CHECK(kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n") == 3);
    CHECK(kills_in("low 0\noom 1\noom_kill 2\noom_group_kill 0\n") == 2);
    CHECK_FALSE(kills_in("low 0\n"));
  }
}
