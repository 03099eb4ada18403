// Ranks of comm as processes, against a rendezvous server in this one.
#pragma once

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

namespace trainrun {

using rendezvous::patient;

inline std::string host_of(std::uint32_t rank, const std::string& backend) {
  return backend == "shm" ? "host0" : fmt::format("host{}", rank / 2);
}

// `size` workers; whatever happens, none outlives the test.
class Job {
 public:
  // Over memory all are on one host, else two on each.
  Job(std::uint32_t size, const std::string& backend, const std::string& mode,
      const std::vector<std::string>& hosts = {}, const std::string& op_timeout = "60",
      const std::string& last_ranks_fault = {}, const std::string& init_timeout = "60")
      : server(size, hosts) {
    REQUIRE(::mkdtemp(directory_.data()) != nullptr);
    const auto key_file = directory_ + "/key";
    REQUIRE(write_key_file(key_file, server.key));
    auto input = make_pipe();
    REQUIRE(input);
    input_ = std::move(*input);
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      std::vector<std::string> environment{"TRAINRUN_RENDEZVOUS=" + server.address,
                                           "TRAINRUN_KEY_FILE=" + key_file,
                                           fmt::format("TRAINRUN_RANK={}", rank),
                                           fmt::format("TRAINRUN_SIZE={}", size),
                                           "TRAINRUN_HOST=" + host_of(rank, backend),
                                           "TRAINRUN_OP_TIMEOUT=" + op_timeout,
                                           "TRAINRUN_INIT_TIMEOUT=" + init_timeout,
                                           "TRAINRUN_COMM_BACKEND=" + (backend == "hier" ? "auto" : backend)};
      if (rank == size - 1 && !last_ranks_fault.empty())
        environment.push_back("TRAINRUN_FAULT=" + last_ranks_fault);
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
  // Whether it says or ends nothing for so long.
  bool is_quiet(std::uint32_t rank, milliseconds for_long) {
    pollfd entry{pipes_[rank].get(), POLLIN, 0};
    return ::poll(&entry, 1, static_cast<int>(for_long.count())) == 0;
  }
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

}  // namespace trainrun
