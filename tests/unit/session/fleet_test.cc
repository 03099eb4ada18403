// The fleet with real agents of this host, as two hosts.
#include "launcher/fleet.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <optional>
#include <set>

using namespace trainrun;

namespace {

constexpr Duration time_limit = seconds(60);
constexpr std::uint64_t each_prints = 12'000'000;  // many times the credit that an agent has

JobSpec two_hosts() {
  JobSpec job;
  job.id = "0123456789abcdef";
  job.transport = TransportKind::local;
  for (const auto* name : {"one", "two"})
    job.hosts.hosts.push_back({.name = name, .slots = 1, .slots_given = true});
  job.programs = {{{"/bin/sh"}, 2, "/"}};
  return job;
}

struct Scene {
  Scene() {
    ::signal(SIGPIPE, SIG_IGN);
    const auto wrong = [this](HostIndex host, const std::string& what) {
      failure = job.hosts.hosts[host.value].name + ": " + what;
      loop.stop();
    };
    fleet.emplace(
        loop, job, *core::place(job, Generation{1}), std::string(32, 'k'),
        Fleet::Handlers{[this](HostIndex host) { start(host); },
                        [=](HostIndex host, const Error& error) { wrong(host, error.message); },
                        [=](HostIndex host, const Session::Loss& loss) { wrong(host, loss.reason); },
                        [this](HostIndex host, const wire::Frame& frame) { heard(host, frame); },
                        [this](HostIndex host, const wire::Stopped&) { left(host); },
                        [](const std::string&) {}},
        transports_for(loop, job));
  }
  void start(HostIndex host) {
    wire::Start start;
    start.worker = WorkerId{host.value + 1};
    start.generation = Generation{1};
    start.argv = {"/bin/sh", "-c", "yes | head -c " + std::to_string(each_prints)};
    start.directory = "/";
    fleet->at(host).send(start);
  }
  void heard(HostIndex host, const wire::Frame& frame) {
    if (const auto output = wire::from_frame<wire::OutputBytes>(frame)) {
      printed += output->bytes.size();
      fleet->owe_credit(host, output->bytes.size());
      // Whoever it came from last is owed little, and has its part paid with what comes next. A host that is
      // left alone must get so far with three quarters of its window of 1 MiB.
      if (printed - printed_before < (1u << 19)) return;
      printed_before = printed;
      fleet->pay_credit();
    }
    if (wire::from_frame<wire::Finished>(frame)) fleet->at(host).stop();
  }
  void left(HostIndex host) {
    gone.insert(host);
    if (gone.size() == 2) loop.stop();
  }
  void run() {
    io::Timer limit(loop);
    limit.arm(io::Loop::now() + time_limit, [this] {
      failure = "too late";
      loop.stop();
    });
    for (const auto host : {0u, 1u}) fleet->dial({host});
    loop.run();
  }

  io::Loop loop;
  const JobSpec job = two_hosts();
  std::optional<Fleet> fleet;
  std::uint64_t printed = 0, printed_before = 0;
  std::set<HostIndex> gone;
  std::string failure;
};

}  // namespace

TEST_CASE("hosts that are owed credit are paid, and print all that they have") {
  Scene scene;
  scene.run();
  CHECK(scene.failure.empty());
  CHECK(scene.printed == 2 * each_prints);
}

TEST_CASE("hosts that are wanted in one turn are one batch of their transport, this host's own go first") {
  struct Batches : transport::Transport {
    Batches(std::string name, std::vector<std::string>& seen) : name_(std::move(name)), seen_(seen) {}
    void dial(const Host&, Duration, transport::DialDone) override {}
    void dial_all(std::vector<transport::DialRequest> batch) override {
      std::string text = name_ + ":";
      for (const auto& one : batch) text += " " + one.host.name;
      seen_.push_back(text);
      batch.front().done(fail(Code::timeout, "no answer"));
    }
    std::string name_;
    std::vector<std::string>& seen_;
  };
  io::Loop loop;
  JobSpec job = two_hosts();
  job.transport = TransportKind::automatic;
  job.hosts.hosts = {{.name = "gpu1"}, {.name = "localhost"}, {.name = "gpu2"}};
  std::vector<std::string> seen, failed;
  std::vector<Code> codes;
  const auto none = [](HostIndex) {};
  Fleet fleet(loop, job, {}, "k",
              {none,
               [&](HostIndex host, const Error& error) {
                 failed.push_back(job.hosts.hosts[host.value].name);
                 codes.push_back(error.code);
               },
               [](HostIndex, const Session::Loss&) {}, [](HostIndex, const wire::Frame&) {},
               [](HostIndex, const wire::Stopped&) {}, [](const std::string&) {}},
              [&](TransportKind kind) {
                return std::make_unique<Batches>(kind == TransportKind::local ? "local" : "ssh", seen);
              });
  for (const auto host : {0u, 1u, 2u}) fleet.dial({host});
  loop.post([&] { loop.post([&] { loop.stop(); }); });
  loop.run();
  CHECK(seen == std::vector<std::string>{"local: localhost", "ssh: gpu1 gpu2"});
  CHECK(failed == std::vector<std::string>{"localhost", "gpu1"});
  CHECK(codes == std::vector<Code>{Code::unreachable, Code::unreachable});
  fleet.abandon({2});
}
