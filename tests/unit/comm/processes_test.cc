// Ranks as processes, against a rendezvous server in this one.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"
#include "rendezvous/job_key.h"
#include "tests/unit/rendezvous/server.h"

using namespace trainrun;
using rendezvous::patient;

namespace {

// `size` workers; whatever happens, none outlives the test.
class Job {
 public:
  Job(std::uint32_t size, const std::string& mode, const std::vector<std::string>& hosts = {},
      const std::string& op_timeout = "60")
      : server(size, hosts) {
    REQUIRE(::mkdtemp(directory_.data()) != nullptr);
    const auto key_file = directory_ + "/key";
    REQUIRE(write_key_file(key_file, server.key));
    auto input = make_pipe();
    REQUIRE(input);
    input_ = std::move(*input);
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      std::vector<std::string> environment{
          "TRAINRUN_RENDEZVOUS=" + server.address,       "TRAINRUN_KEY_FILE=" + key_file,
          fmt::format("TRAINRUN_RANK={}", rank),         fmt::format("TRAINRUN_SIZE={}", size),
          fmt::format("TRAINRUN_HOST=host{}", rank / 2), "TRAINRUN_OP_TIMEOUT=" + op_timeout};
      for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS", "LD_LIBRARY_PATH"})
        if (const char* value = std::getenv(name)) environment.push_back(fmt::format("{}={}", name, value));
      start(mode, environment);
    }
  }
  ~Job() {
    for (const auto pid : pids) {
      if (pid == 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    ::unlink((directory_ + "/key").c_str());
    ::rmdir(directory_.c_str());
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // What the rank has printed once it holds `text`, or all of it when it has ended.
  std::string printed(std::uint32_t rank, const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + patient;
    auto& so_far = outputs_[rank];
    while (so_far.find(text) == std::string::npos) {
      const auto left =
          std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
      pollfd entry{pipes_[rank].get(), POLLIN, 0};
      REQUIRE_MESSAGE((left > 0 && ::poll(&entry, 1, static_cast<int>(left)) > 0), "rank ", rank,
                      " hangs: ", so_far);
      std::array<char, 4096> buffer;
      const auto got = ::read(pipes_[rank].get(), buffer.data(), buffer.size());
      if (got <= 0) break;
      so_far.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return so_far;
  }
  std::string all(std::uint32_t rank) { return printed(rank, "\x01 never printed"); }
  int exit_code(std::uint32_t rank) {
    int status = 0;
    REQUIRE(::waitpid(std::exchange(pids[rank], 0), &status, 0) > 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void signal(std::uint32_t rank, int number) { REQUIRE(::kill(pids[rank], number) == 0); }

  // Workers that wait for the end of their input go on.
  void release() { input_.second.reset(); }

  rendezvous::Server server;
  std::vector<pid_t> pids;

 private:
  void start(const std::string& mode, const std::vector<std::string>& environment) {
    std::vector<char*> argv, envp;
    std::string program = TRAINRUN_COMM_WORKER, word = mode;
    argv = {program.data(), word.data(), nullptr};
    auto copies = environment;
    for (auto& variable : copies) envp.push_back(variable.data());
    envp.push_back(nullptr);
    auto pipe = make_pipe();
    REQUIRE(pipe);
    const auto pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      ::dup2(pipe->second.get(), 1);
      ::dup2(input_.first.get(), 0);
      ::execve(argv[0], argv.data(), envp.data());
      ::_exit(127);
    }
    pids.push_back(pid);
    pipes_.push_back(std::move(pipe->first));
    outputs_.emplace_back();
  }

  FdPair input_;  // the workers' stdin
  std::string directory_ = "/tmp/trainrun-test-XXXXXX";
  std::vector<Fd> pipes_;
  std::vector<std::string> outputs_;
};

}  // namespace

TEST_CASE("every operation on every type gives the expected values on 1 to 4 ranks") {
  for (std::uint32_t size = 1; size <= 4; ++size) {
    Job job(size, "ops");
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      CHECK(job.all(rank) ==
            fmt::format("ok {} {} local {} {}\n", rank, size, rank % 2, std::min(size - rank / 2 * 2, 2U)));
      CHECK(job.exit_code(rank) == 0);
    }
  }
}

TEST_CASE("when a rank is killed every survivor's running operation fails and names it") {
  Job job(4, "loop");
  for (std::uint32_t rank = 0; rank < 4; ++rank) job.printed(rank, "running");
  job.signal(2, SIGKILL);
  for (const std::uint32_t rank : {0, 1, 3}) {
    CHECK(job.all(rank).find("failed PeerLost culprit 2 host host1 ") != std::string::npos);
    CHECK(job.exit_code(rank) == 3);
  }
}

TEST_CASE("survivors repeat what the launcher knows about the death") {
  Job job(3, "loop", {"gpu1", "gpu1", "gpu2"});
  for (std::uint32_t rank = 0; rank < 3; ++rank) job.printed(rank, "running");
  // The launcher sees the signal at about the time at which the connection breaks; its word counts.
  job.server.member_lost(2, "gpu2", "was killed by SIGKILL");
  job.signal(2, SIGKILL);
  for (const std::uint32_t rank : {0, 1}) {
    const auto said = job.all(rank);
    CHECK(said.find("failed PeerLost culprit 2 host gpu2 missing - how was killed by SIGKILL") !=
          std::string::npos);
    CHECK(said.find("rank 2 on gpu2 was lost: was killed by SIGKILL") != std::string::npos);
  }
}

TEST_CASE("when a rank stops answering the others time out and name it") {
  Job job(3, "loop", {}, "2");
  for (std::uint32_t rank = 0; rank < 3; ++rank) job.printed(rank, "running");
  job.signal(1, SIGSTOP);
  for (const std::uint32_t rank : {0, 2})
    CHECK_MESSAGE(job.all(rank).find("failed Timeout culprit 1 host host0 missing 1 ") != std::string::npos,
                  job.all(rank));
}

TEST_CASE("a rank that waits for others that never come names all of them, and they hear of it") {
  Job job(3, "late", {}, "1");
  CHECK(job.all(0).find("failed Timeout culprit -1 host - missing 1 2 ") != std::string::npos);
  job.release();
  for (const std::uint32_t rank : {1, 2})
    CHECK(job.all(rank).find("failed Timeout culprit -1 host - missing 1 2 ") != std::string::npos);
}

TEST_CASE("ranks that call different things are all told both") {
  Job job(3, "mismatch");
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto said = job.all(rank);
    CHECK(said.find("failed Mismatch") != std::string::npos);
    CHECK(said.find("rank 1 called allreduce(sum of 1000 f32) as operation 1") != std::string::npos);
    CHECK(said.find("2000 f32") != std::string::npos);
    CHECK(job.exit_code(rank) == 3);
  }
}
