// A real agent with its watcher, as the launcher forks them, and a test in the place of the launcher.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_main.h"
#include "launcher/agent/process_stat.h"
#include "launcher/base/strings.h"
#include "launcher/io/frame_stream.h"
#include "launcher/wire/messages.h"

namespace trainrun {

constexpr Duration scene_patience = seconds(30);

inline bool is_alive(pid_t pid) {
  const auto stat = agent::process_stat(pid);
  return stat && stat->lives();
}

struct Opening {
  wire::Greet greeting;
  wire::OpenJob job;
};

struct AgentScene {
  explicit AgentScene(const std::function<void(Opening&)>& change = nullptr) {
    ::signal(SIGPIPE, SIG_IGN);
    auto pair = make_socket_pair();
    REQUIRE(pair);
    const auto forked = agent::fork_agent(std::move(pair->second));
    REQUIRE(forked);
    watcher = *forked;
    link.emplace(loop, std::move(pair->first), Fd(),
                 io::FrameStream::Handlers{[this](const wire::Frame& frame) { receive(frame), look(); },
                                           [this](const std::string&) { closed = true, look(); }});
    Opening opening;
    static int scenes = 0;  // an agent clears up after dead ones of its job: no two scenes are one job
    opening.greeting.host_timeout_ms = 60'000;
    opening.greeting.want_addresses = false;
    auto& job = opening.job;
    job.job_id = "scene" + std::to_string(::getpid()) + "-" + std::to_string(++scenes);
    job.credit = 1u << 20;
    job.grace_ms = 60'000;
    job.env = {{"PATH", "/usr/bin:/bin"}};
    job.directories = {"/"};
    if (change) change(opening);
    link->send(opening.greeting);
    link->send(opening.job);
    run([this] { return prepared; });
  }
  ~AgentScene() {
    if (!closed) stop();
    wait_for_watcher();
  }
  AgentScene(const AgentScene&) = delete;
  AgentScene& operator=(const AgentScene&) = delete;

  // The loop until `wanted`; a time is only a deadline against hanging.
  void run(std::function<bool()> wanted) {
    until = std::move(wanted);
    io::Timer limit(loop);
    limit.arm(io::Loop::now() + scene_patience, [this] { loop.stop(); });
    loop.post([this] { look(); });
    loop.run();
    const bool reached = until();
    until = nullptr;
    loop.context().restart();
    CHECK(reached);
  }
  void let_pass(Duration time) {
    bool over = false;
    io::Timer timer(loop);
    timer.arm(io::Loop::now() + time, [&] { over = true, look(); });
    run([&] { return over; });
  }
  // Until the process has ended, whoever's child it is.
  void until_gone(pid_t pid) {
    const int handle = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (handle < 0) return;
    boost::asio::posix::stream_descriptor end(loop.context(), handle);
    const auto gone = std::make_shared<bool>(false);
    end.async_wait(end.wait_read, [this, gone](const boost::system::error_code& error) {
      *gone = !error;
      look();
    });
    run([gone] { return *gone; });
  }
  // Until the process runs this program and waits for something: before, it is in the kernel now and then.
  void until_waiting_in(pid_t pid, const std::string& program) {
    for (int look = 0; look < 1000; ++look) {
      std::string name;
      std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
      const auto stat = agent::process_stat(pid);
      if (name == program && stat && stat->state == 'S') return;
      let_pass(Duration(10'000'000));
    }
    CHECK_MESSAGE(false, pid, " does not wait in ", program);
  }
  void look() {
    if (until && until()) loop.stop();
  }
  void stop() {
    ::kill(watcher, SIGCONT);
    link->send(wire::Stop{});
    run([this] { return closed; });
  }
  // Its exit code; it must go by itself once the agent has gone.
  int wait_for_watcher() {
    if (watcher < 0) return exit_code;
    until_gone(watcher);
    if (is_alive(watcher)) ::kill(watcher, SIGKILL);
    int status = 0;
    ::waitpid(watcher, &status, 0);
    watcher = -1;
    return exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  void start(std::uint32_t worker, std::vector<std::string> argv, wire::EnvPairs env = {}) {
    wire::Start order;
    order.worker = WorkerId{worker};
    order.argv = std::move(argv);
    order.env = std::move(env);
    order.directory = "/";
    link->send(order);
  }
  void start_shell(std::uint32_t worker, const std::string& script) {
    start(worker, {"/bin/sh", "-c", script});
  }
  // Waits until the worker has written so many whole lines, each a number: mostly pids.
  std::vector<pid_t> numbers(std::uint32_t worker, std::size_t count) {
    run([&] { return split(output[worker], '\n').size() == count + 1; });
    std::vector<pid_t> found;
    for (const auto line : split(output[worker], '\n')) {
      if (const auto number = parse_unsigned<unsigned>(line)) found.push_back(static_cast<pid_t>(*number));
    }
    REQUIRE(found.size() == count);
    return found;
  }
  void sweep(std::uint32_t sequence, std::vector<std::uint32_t> workers, bool now = false) {
    wire::Sweep order{sequence, {}, now};
    for (const auto id : workers) order.workers.push_back(WorkerId{id});
    link->send(order);
  }
  // The answer to the sweep of that number, once it is there.
  wire::Swept swept(std::uint32_t sequence) {
    run([&] { return sweeps.contains(sequence); });
    return sweeps[sequence];
  }
  void until_said(const std::string& what) {
    run([&] { return place(what) < said.size(); });
  }
  // Position in the order of all that the agent said; said.size() if it did not.
  [[nodiscard]] std::size_t place(const std::string& what) const {
    return static_cast<std::size_t>(std::find(said.begin(), said.end(), what) - said.begin());
  }

  void receive(const wire::Frame& frame) {
    const auto id = [](const auto& message) { return std::to_string(message->worker.value); };
    switch (frame.type) {
      case wire::Hello::type:
        agent_pid = static_cast<pid_t>(wire::from_frame<wire::Hello>(frame)->pid);
        break;
      case wire::Greeted::type:
        break;
      case wire::Prepared::type:
        prepared = true;
        break;
      case wire::Started::type: {
        const auto message = wire::from_frame<wire::Started>(frame);
        pids[message->worker.value] = static_cast<pid_t>(message->pid);
        said.push_back("started " + id(message));
        break;
      }
      case wire::NotStarted::type: {
        const auto message = wire::from_frame<wire::NotStarted>(frame);
        said.push_back("not started " + id(message) + " " + to_string(message->stage) + " " +
                       std::to_string(message->error));
        break;
      }
      case wire::Exited::type: {
        const auto message = wire::from_frame<wire::Exited>(frame);
        in_mpi[message->worker.value] = message->in_mpi;
        signalled[message->worker.value] = message->signalled;
        said.push_back("exited " + id(message));
        break;
      }
      case wire::ErrorFile::type: {
        const auto message = wire::from_frame<wire::ErrorFile>(frame);
        error_files[message->worker.value] = message->text;
        said.push_back("error file of " + id(message));
        break;
      }
      case wire::Aborted::type: {
        const auto message = wire::from_frame<wire::Aborted>(frame);
        said.push_back("aborted " + id(message) + " with " + std::to_string(message->code));
        break;
      }
      case wire::Finished::type:
        said.push_back("finished " + id(wire::from_frame<wire::Finished>(frame)));
        break;
      case wire::OutputBytes::type: {
        const auto message = wire::from_frame<wire::OutputBytes>(frame);
        output[message->worker.value] += message->bytes;
        break;
      }
      case wire::Pong::type:
        said.push_back("pong " + std::to_string(wire::from_frame<wire::Pong>(frame)->sequence));
        break;
      case wire::Note::type:
        said.push_back("note " + wire::from_frame<wire::Note>(frame)->text);
        break;
      case wire::Leaving::type:
        said.push_back("leaving " + wire::from_frame<wire::Leaving>(frame)->reason);
        break;
      case wire::PortHeld::type:
        ports.push_back(*wire::from_frame<wire::PortHeld>(frame));
        break;
      case wire::Swept::type: {
        const auto message = wire::from_frame<wire::Swept>(frame);
        sweeps[message->sequence] = *message;
        said.push_back("swept " + std::to_string(message->sequence));
        break;
      }
      case wire::Inspected::type:
        inspected.push_back(*wire::from_frame<wire::Inspected>(frame));
        said.push_back("inspected " + id(wire::from_frame<wire::Inspected>(frame)));
        break;
      case wire::InspectionDone::type:
        said.push_back("inspection " +
                       std::to_string(wire::from_frame<wire::InspectionDone>(frame)->sequence));
        break;
      case wire::Stopped::type:
        stopped = wire::from_frame<wire::Stopped>(frame);
        break;
      default:
        said.push_back("message " + std::to_string(frame.type));
    }
  }

  io::Loop loop;
  std::optional<io::FrameStream> link;
  pid_t watcher = -1, agent_pid = -1;
  bool prepared = false, closed = false;
  int exit_code = -1;
  std::vector<std::string> said;
  std::map<std::uint32_t, pid_t> pids;
  std::map<std::uint32_t, std::string> output;
  std::map<std::uint32_t, std::string> error_files;
  std::map<std::uint32_t, bool> in_mpi;          // of those that have ended
  std::map<std::uint32_t, SignalSet> signalled;  // the same
  std::map<std::uint32_t, wire::Swept> sweeps;
  std::vector<wire::PortHeld> ports;
  std::vector<wire::Inspected> inspected;
  std::optional<wire::Stopped> stopped;
  std::function<bool()> until;
};

}  // namespace trainrun
