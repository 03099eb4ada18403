#include "launcher/agent/predecessor.h"

#include "agent_scene.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "tests/unit/agent/temporary_folder.h"

using namespace trainrun;
namespace fs = std::filesystem;

namespace {

struct Base : agent::TemporaryFolder {
  // A directory as an agent makes it.
  [[nodiscard]] std::string directory(const std::string& name) const {
    const auto made = path + "/" + name;
    fs::create_directory(made);
    std::ofstream(made + "/key") << "secret";
    return made;
  }
  [[nodiscard]] std::string of_dead_agent(const std::string& name) const {
    auto made = directory(name);
    CHECK(agent::claim_directory(made, HostIndex{0}));  // and let go at once
    return made;
  }
};

// A process with a key file in its environment, until it is killed.
struct Daemon {
  explicit Daemon(const std::string& key_file) {
    const auto variable = "TRAINRUN_KEY_FILE=" + key_file;
    auto in = make_pipe(), out = make_pipe();
    REQUIRE(in);
    REQUIRE(out);
    pid = ::fork();
    if (pid == 0) {
      const char* const words[] = {"sh", "-c", "echo; read line", nullptr};
      const char* const environment[] = {variable.c_str(), nullptr};
      if (::dup2(in->first.get(), 0) == 0 && ::dup2(out->second.get(), 1) == 1)
        ::execve("/bin/sh", const_cast<char**>(words), const_cast<char**>(environment));
      ::_exit(1);
    }
    out->second.reset();
    char byte = 0;
    REQUIRE(::read(out->first.get(), &byte, 1) == 1);  // it runs, so its environment is the one given
    stdin_of_it = std::move(in->second);
  }
  ~Daemon() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  [[nodiscard]] bool ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid;
  }
  pid_t pid = 0;
  Fd stdin_of_it;
};

}  // namespace

TEST_SUITE("predecessor") {
  TEST_CASE("a dead agent's directory goes, and the processes that name it") {
    const Base base;
    const auto dead = base.of_dead_agent("trainrun.aa.111111");
    const Daemon its(dead + "/key"), stranger(base.path + "/trainrun.aa.222222/key"), longer(dead + "2/key");
    const auto cleared = agent::clear_after_predecessors(base.path, "aa", HostIndex{1});
    CHECK(cleared.directories == 1);
    CHECK(cleared.processes == 1);
    CHECK_FALSE(fs::exists(dead));
    CHECK(its.ended());
    CHECK_FALSE(stranger.ended());
    CHECK_FALSE(longer.ended());
    CHECK(agent::clear_after_predecessors(base.path, "aa", HostIndex{1}).directories == 0);
  }

  TEST_CASE("a living agent's is left alone: the host may have two names") {
    const Base base;
    const auto living = base.directory("trainrun.aa.111111");
    const Daemon its(living + "/key");
    auto life = agent::claim_directory(living, HostIndex{0});
    REQUIRE(life);
    CHECK(agent::clear_after_predecessors(base.path, "aa", HostIndex{1}).directories == 0);
    CHECK(fs::exists(living + "/key"));
    CHECK_FALSE(its.ended());
    life.reset();
    CHECK(agent::clear_after_predecessors(base.path, "aa", HostIndex{1}).processes == 1);
  }

  TEST_CASE("a living agent of the same host is given up already: it ends, and its workers with it") {
    const Base base;
    const auto old = base.directory("trainrun.aa.111111");
    const Daemon its(old + "/key");
    auto ready = make_pipe(), never = make_pipe();
    REQUIRE(ready);
    REQUIRE(never);
    const pid_t agent = ::fork();
    if (agent == 0) {
      const auto life = agent::claim_directory(old, HostIndex{1});
      char byte = life ? 'y' : 'n';
      static_cast<void>(::write(ready->second.get(), &byte, 1));
      static_cast<void>(::read(never->first.get(), &byte, 1));
      ::_exit(0);
    }
    char byte = 0;
    REQUIRE(::read(ready->first.get(), &byte, 1) == 1);
    REQUIRE(byte == 'y');
    CHECK(agent::clear_after_predecessors(base.path, "aa", HostIndex{1}).processes == 1);
    CHECK_FALSE(fs::exists(old));
    CHECK(its.ended());
    int status = 0;
    CHECK(::waitpid(agent, &status, 0) == agent);
    CHECK(WIFSIGNALED(status));
  }

  TEST_CASE(
      "an agent and its watcher that were both stopped go, and what only the watcher knows goes with them") {
    const Base base;
    std::string job;
    AgentScene scene([&](Opening& opening) {
      opening.job.elastic = true;
      opening.job.host = HostIndex{1};
      opening.job.env.emplace_back("TMPDIR", base.path);
      job = opening.job.job_id;
    });
    scene.start_shell(
        1, "(setsid env -i sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &)\necho $$; exec sleep 1000");
    const auto workers = scene.numbers(1, 2);
    for (const auto pid : {scene.watcher, scene.agent_pid}) REQUIRE(::kill(pid, SIGSTOP) == 0);
    scene.run([&] {
      scene.loop.post([&] { scene.look(); });
      return agent::process_stat(scene.watcher)->stopped() && agent::process_stat(scene.agent_pid)->stopped();
    });
    CHECK(agent::clear_after_predecessors(base.path, job, HostIndex{1}).directories == 1);
    CHECK_FALSE(is_alive(scene.watcher));
    CHECK_FALSE(is_alive(scene.agent_pid));
    for (const auto pid : workers) CHECK_FALSE(is_alive(pid));
    CHECK(fs::is_empty(base.path));
    scene.run([&] { return scene.closed; });
  }

  TEST_CASE("another job's, another machine's, one that is being made, and what is no directory stay") {
    const Base base;
    const auto other_job = base.of_dead_agent("trainrun.ab.111111");
    const auto other_machine = base.of_dead_agent("trainrun.aa.111111");
    std::ofstream(other_machine + "/agent") << "00000000-0000-0000-0000-000000000000\n";
    const auto unclaimed = base.directory("trainrun.aa.222222");
    const auto empty = base.of_dead_agent("trainrun.aa.333333");
    fs::resize_file(empty + "/agent", 0);
    fs::create_directory_symlink(other_job, base.path + "/trainrun.aa.444444");
    std::ofstream(base.path + "/trainrun.aa.555555") << "a file";
    CHECK(agent::clear_after_predecessors(base.path, "aa", HostIndex{1}).directories == 0);
    for (const auto& each : {other_job, other_machine, unclaimed, empty}) CHECK(fs::exists(each + "/key"));
    CHECK(agent::clear_after_predecessors(base.path + "/nowhere", "aa", HostIndex{1}).directories == 0);
  }
}
