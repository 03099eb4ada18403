#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <set>

#include "cli/exit_code.h"
#include "launcher/base/strings.h"
#include "launcher/core/binding.h"
#include "launcher/fleet.h"
#include "launcher/run.h"

namespace trainrun {
namespace {

// Clocks that differ by more than this make logs of several hosts hard to read; nothing of ours depends on
// it.
constexpr Duration tolerable_skew = seconds(2);

struct HostReport {
  bool good = false;
  std::string line, hint;
  int exit_code = 0;
};

HostReport describe(const std::string& name, const wire::HostFacts& facts) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const auto skew = Duration(facts.wall_clock_ns) - (seconds(now.tv_sec) + Duration(now.tv_nsec));
  const auto size = skew < Duration::zero() ? -skew : skew;
  HostReport report{true,
                    fmt::format("{}: ok: agent, programs and directories are there; {} cores, {} GPUs, {}",
                                name, core::usable_cores(facts), facts.gpus, facts.machine),
                    {},
                    0};
  if (size > tolerable_skew)
    report.line += fmt::format("; its clock is {} {}", format_duration(size),
                               skew > Duration::zero() ? "ahead" : "behind");
  return report;
}

}  // namespace

int check_hosts(const JobSpec& job) {
  const auto placement = core::place(job, Generation{1});
  if (!placement) {
    std::fprintf(stderr, "trainrun: %s\n", placement.error().message.c_str());
    return static_cast<int>(exit_code_of(placement.error().code));
  }
  io::Loop loop;
  std::map<HostIndex, HostReport> reports;
  std::size_t open = 0;
  Fleet* all = nullptr;
  const auto name = [&job](HostIndex host) { return job.hosts.hosts[host.value].name; };
  const auto close_one = [&] {
    if (--open == 0) loop.stop();
  };
  const auto fail_one = [&](HostIndex host, const Error& error) {
    reports[host] = {false, error.message, error.hint, static_cast<int>(exit_code_of(error.code))};
    close_one();
  };
  Fleet fleet(loop, job, *placement, std::string(32, '\0'),
              {[&](HostIndex host) {
                 reports[host] = describe(name(host), all->at(host).facts());
                 all->at(host).stop();
               },
               fail_one,
               [&](HostIndex host, const std::string& reason) {
                 fail_one(host, {Code::lost, name(host) + ": " + reason, ""});
               },
               [](HostIndex, const wire::Frame&) {}, [&](HostIndex, const wire::Stopped&) { close_one(); },
               [&](const std::string& text) {
                 if (job.verbose > 0) std::fprintf(stderr, "trainrun: %s\n", text.c_str());
               }});
  all = &fleet;
  std::set<HostIndex> hosts;
  for (const auto& seat : placement->seats) hosts.insert(seat.host);
  open = hosts.size();
  io::Timer deadline(loop);
  deadline.arm(io::Loop::now() + job.start_timeout, [&] { loop.stop(); });
  for (const auto host : hosts) fleet.dial(host);
  loop.run();

  int exit_code = 0;
  for (const auto host : hosts) {
    auto it = reports.find(host);
    if (it == reports.end()) {
      it = reports
               .emplace(host, HostReport{false,
                                         fmt::format("{}: no answer within {}", name(host),
                                                     format_duration(job.start_timeout)),
                                         "see whether the host is up", 69})
               .first;
    }
    const auto& report = it->second;
    std::printf("%s\n", report.line.c_str());
    if (!report.hint.empty()) std::printf("    try: %s\n", report.hint.c_str());
    if (report.exit_code != 0)
      exit_code = exit_code == 0 || exit_code == report.exit_code ? report.exit_code : 69;
  }
  return exit_code;
}

}  // namespace trainrun
