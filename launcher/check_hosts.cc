#include <fmt/format.h>

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstdio>
#include <map>
#include <set>

#include "host-discovery/machines.h"
#include "launcher/base/exit_code.h"
#include "launcher/base/open_files.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"
#include "launcher/fleet.h"
#include "launcher/output/host_check.h"
#include "launcher/output/our_lines.h"
#include "launcher/run.h"

namespace trainrun {
namespace {

Duration clock_ahead(const wire::HostFacts& facts) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return Duration(facts.wall_clock_ns) - (seconds(now.tv_sec) + Duration(now.tv_nsec));
}

// Of the libraries that its MPI programs need there: a start would fail in the middle.
Error missing_library(const JobSpec& job, const std::string& host, const wire::HostFacts& facts) {
  for (std::size_t i = 0; i < facts.programs.mpi.size() && i < job.programs.size(); ++i) {
    if (facts.programs.mpi[i].missing.empty() || facts.programs.mpi[i].guessed) continue;
    return {Code::not_found,
            fmt::format("{}: {} is a program of {}, and its library cannot be loaded: {}", host,
                        quoted(job.programs[i].argv.front(), 80), name_of(facts.programs.mpi[i].family),
                        printable(facts.programs.mpi[i].missing)),
            "install that MPI there as it is here, or forward a path that finds it (-x LD_LIBRARY_PATH)"};
  }
  return {};
}

int check_in_loop(const JobSpec& job, bool json) {
  const auto placement = core::place(job, Generation{1});
  if (!placement) {
    return output::print_error(placement.error());
  }
  io::Loop loop;
  std::map<HostIndex, output::HostCheck> checks;
  std::size_t open = 0;
  Fleet* all = nullptr;
  const auto name = [&job](HostIndex host) { return job.hosts.hosts[host.value].name; };
  const auto close_one = [&] {
    if (--open == 0) loop.stop();
  };
  const auto fail_one = [&](HostIndex host, const Error& error) {
    checks[host] = {name(host), std::nullopt, {}, error};
    close_one();
  };
  Fleet fleet(loop, job, *placement, std::string(32, '\0'),
              {[&](HostIndex host) {
                 const auto& facts = all->at(host).facts();
                 checks[host] = {name(host), facts, clock_ahead(facts), {}};
                 if (auto missing = missing_library(job, name(host), facts); !missing.message.empty())
                   checks[host] = {name(host), std::nullopt, {}, std::move(missing)};
                 all->at(host).stop();
               },
               fail_one,
               [&](HostIndex host, const Session::Loss& loss) {
                 fail_one(host, {Code::lost, name(host) + ": " + loss.reason, ""});
               },
               [](HostIndex, const wire::Frame&) {}, [&](HostIndex, const wire::Stopped&) { close_one(); },
               [&](const std::string& text) {
                 if (job.verbose > 0) output::print_line(stderr, "trainrun: " + text);
               }},
              transports_for(loop, job));
  all = &fleet;
  std::set<HostIndex> wanted;
  for (const auto& seat : placement->seats) wanted.insert(seat.host);
  open = wanted.size();
  io::Timer deadline(loop);
  deadline.arm(io::Loop::now() + job.start_timeout, [&] { loop.stop(); });
  for (const auto host : wanted) fleet.dial(host);
  loop.run();

  std::vector<output::HostCheck> in_order;
  hosts::Machines machines;
  for (const auto host : wanted) {
    if (!checks.contains(host)) {
      const auto time_limit = format_duration(job.start_timeout);
      checks[host] = {name(host),
                      std::nullopt,
                      {},
                      {Code::lost, fmt::format("{}: no answer within {}", name(host), time_limit),
                       "see whether the host is up"}};
    }
    // A session that has ended is no neighbour to the fleet.
    if (auto& check = checks[host]; check.facts && !may_share_a_machine(job)) {
      if (const auto other = machines.note(host, check.facts->place))
        check = {name(host), std::nullopt, {}, same_machine(job, host, *other)};
    }
    in_order.push_back(checks[host]);
  }
  const auto text = json ? output::host_checks_json(in_order) : output::host_checks_text(in_order);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    std::fprintf(stderr, "trainrun: stdout cannot be written to: %s\n", errno_text(errno).c_str());
    return to_int(ExitCode::output_lost);
  }
  return output::exit_code_of(in_order);
}

}  // namespace

// As run_job().
int check_hosts(const JobSpec& job, bool json) try {
  auto unprepared = job;
  unprepared.preload = {};  // nothing is started
  return check_in_loop(unprepared, json);
} catch (const boost::system::system_error& error) {
  return output::print_error(no_more_to_wait_with(error.code().value()));
}

}  // namespace trainrun
