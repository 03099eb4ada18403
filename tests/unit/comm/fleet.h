// Elastic ranks as processes, and the test as their launcher: it says who is lost and begins generations.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "launcher/base/fd.h"
#include "rendezvous/job_key.h"
#include "tests/unit/comm/no_sigpipe.h"
#include "tests/unit/rendezvous/server.h"

namespace trainrun {

class Fleet {
 public:
  // Generation 1 of workers 1..size, each on a host of its own or all on one.
  explicit Fleet(std::uint32_t size, std::vector<std::string> command = {TRAINRUN_ELASTIC_WORKER},
                 std::vector<std::string> environment = {}, bool one_host = false)
      : server(1), one_host_(one_host), command_(std::move(command)), environment_(std::move(environment)) {
    server.on_event = [this](const rendezvous::Event& event) {
      const auto* it = std::get_if<rendezvous::MemberWaits>(&event);
      if (it == nullptr) return;
      const std::lock_guard lock(mutex_);
      waiting_.insert({it->generation.value, it->worker.value});
      waits_.notify_all();
    };
    REQUIRE(::mkdtemp(directory_.data()) != nullptr);
    REQUIRE(rendezvous::write_key_file(directory_ + "/key", server.key));
    std::vector<std::uint32_t> workers;
    for (std::uint32_t worker = 1; worker <= size; ++worker) workers.push_back(worker);
    begin(workers);
    for (const auto worker : workers) spawn(worker);
  }
  ~Fleet() {
    for (const auto& [worker, process] : processes_) {
      if (process.pid == 0) continue;
      ::kill(process.pid, SIGKILL);
      ::waitpid(process.pid, nullptr, 0);
    }
    server.stop();
    ::unlink((directory_ + "/key").c_str());
    ::rmdir(directory_.c_str());
  }
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // The next generation of these workers, by rank. Those that are new must be spawned.
  void begin(std::vector<std::uint32_t> workers) {
    workers_ = std::move(workers);
    server.begin(++generation, workers_, one_host_);
  }
  void spawn(std::uint32_t worker, const std::vector<std::string>& words = {}) {
    std::uint32_t rank = 0;
    while (workers_.at(rank) != worker) ++rank;
    launch(worker, rank, generation, words);
  }
  // One that has no place yet.
  void spawn_newcomer(std::uint32_t worker) {
    launch(worker, static_cast<std::uint32_t>(workers_.size()), 0, {});
  }
  void launch(std::uint32_t worker, std::uint32_t rank, std::uint32_t in_generation,
              const std::vector<std::string>& words) {
    auto argv_words = command_;
    argv_words.insert(argv_words.end(), words.begin(), words.end());
    auto environment = environment_;  // the first of equal names counts
    for (const auto& own : std::vector<std::string>{
             "TRAINRUN_RENDEZVOUS=" + server.address, "TRAINRUN_KEY_FILE=" + directory_ + "/key",
             fmt::format("TRAINRUN_RANK={}", rank), fmt::format("TRAINRUN_SIZE={}", workers_.size()),
             fmt::format("TRAINRUN_GENERATION={}", in_generation), fmt::format("TRAINRUN_WORKER={}", worker),
             "TRAINRUN_OP_TIMEOUT=60", "TRAINRUN_ELASTIC_TIMEOUT=60"})
      environment.push_back(own);
    for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS", "LD_LIBRARY_PATH", "LD_PRELOAD"})
      if (const char* value = std::getenv(name)) environment.push_back(fmt::format("{}={}", name, value));
    auto in = make_pipe(), out = make_pipe();
    REQUIRE(in);
    REQUIRE(out);
    std::vector<char*> argv, envp;
    for (auto& word : argv_words) argv.push_back(word.data());
    for (auto& variable : environment) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    const auto pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      ::signal(SIGPIPE, SIG_DFL);
      ::dup2(in->first.get(), 0);
      ::dup2(out->second.get(), 1);
      ::execve(argv[0], argv.data(), envp.data());
      ::_exit(127);
    }
    processes_[worker] = {pid, std::move(in->second), std::move(out->first), {}, {}};
  }
  void tell(std::uint32_t worker, const std::string& line) {
    const auto text = line + "\n";
    const auto& process = processes_.at(worker);
    REQUIRE_MESSAGE(::write(process.in.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()),
                    "worker ", worker, " has ended and is told to ", line, ": ", process.transcript);
  }
  void tell_all(const std::string& line) {
    for (const auto worker : workers_) tell(worker, line);
  }
  // Reads on until the worker has printed `text`, which ends what later calls look at; the line that holds
  // it.
  std::string hears(std::uint32_t worker, const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + rendezvous::patient;
    auto& process = processes_.at(worker);
    for (;;) {
      const auto at = process.unread.find(text);
      const auto end = at == std::string::npos ? at : process.unread.find('\n', at);
      if (end != std::string::npos) {
        const auto begin = process.unread.rfind('\n', at);
        const auto line = process.unread.substr(begin == std::string::npos ? 0 : begin + 1,
                                                end - (begin == std::string::npos ? 0 : begin + 1));
        process.unread.erase(0, end + 1);
        return line;
      }
      const auto left =
          std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
      pollfd entry{process.out.get(), POLLIN, 0};
      REQUIRE_MESSAGE((left > 0 && ::poll(&entry, 1, static_cast<int>(left)) > 0), "worker ", worker,
                      " hangs, expected ", text, ": ", process.unread);
      std::array<char, 4096> buffer;
      const auto got = ::read(process.out.get(), buffer.data(), buffer.size());
      REQUIRE_MESSAGE(got > 0, "worker ", worker, " ended, expected ", text, ": ", process.unread);
      process.unread.append(buffer.data(), static_cast<std::size_t>(got));
      process.transcript.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }
  [[nodiscard]] const std::string& transcript(std::uint32_t worker) const {
    return processes_.at(worker).transcript;
  }
  void all_hear(const std::string& text) {
    for (const auto worker : workers_) hears(worker, text);
  }
  // kill -9, and the launcher's word to the others.
  void kill(std::uint32_t worker) {
    auto& process = processes_.at(worker);
    REQUIRE(::kill(process.pid, SIGKILL) == 0);
    ::waitpid(std::exchange(process.pid, 0), nullptr, 0);
    lost(worker);
  }
  void lost(std::uint32_t worker) {
    std::uint32_t rank = 0;
    while (workers_.at(rank) != worker) ++rank;
    server.say([g = generation, rank](rendezvous::Service& service) {
      service.member_lost({g}, {rank}, "host", "was killed by SIGKILL", io::Loop::now());
    });
  }
  // Until these have left the current generation and ask for the next.
  void all_wait(const std::vector<std::uint32_t>& workers) { all_ask_after(generation, workers); }
  void newcomer_asks(std::uint32_t worker) { all_ask_after(0, {worker}); }
  void all_ask_after(std::uint32_t left, const std::vector<std::uint32_t>& workers) {
    std::unique_lock lock(mutex_);
    for (const auto worker : workers) {
      const bool waits = waits_.wait_for(lock, rendezvous::patient, [&] {
        return waiting_.contains({left, worker});
      });
      REQUIRE_MESSAGE(waits, "worker ", worker, " does not ask for its place after generation ", generation,
                      ", pid ", processes_.at(worker).pid, ": ", processes_.at(worker).unread);
    }
  }
  int exit_code(std::uint32_t worker) {
    int status = 0;
    REQUIRE(::waitpid(std::exchange(processes_.at(worker).pid, 0), &status, 0) > 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] const std::vector<std::uint32_t>& workers() const { return workers_; }

  rendezvous::Server server;
  std::uint32_t generation = 0;

 private:
  struct Process {
    pid_t pid = 0;
    Fd in, out;
    std::string unread, transcript{};
  };

  NoSigpipe ignored_;
  bool one_host_;
  std::vector<std::string> command_, environment_;
  std::string directory_ = "/tmp/trainrun-test-XXXXXX";
  std::vector<std::uint32_t> workers_;
  std::map<std::uint32_t, Process> processes_;
  std::mutex mutex_;
  std::condition_variable waits_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> waiting_;  // generation that was left, worker
};

}  // namespace trainrun
