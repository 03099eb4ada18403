#include "launcher/output/status_line.h"

#include <fmt/format.h>

#include "launcher/base/strings.h"

namespace trainrun::output {
namespace {

// Drawn several times a second: fractions would only flicker.
std::string whole_seconds(Duration duration) {
  const auto whole = std::chrono::floor<seconds>(duration);
  return whole < seconds(60) ? fmt::format("{} s", whole.count()) : format_duration(whole);
}

// Of ranks that run: those that cannot go on without others.
std::string who_waits(const core::JobMachine::Progress& p, Instant now) {
  const int missing = p.ranks - p.joined;
  if (p.joined > 0)
    return missing > 0 ? fmt::format(" {} of them waiting for {} for {},", p.joined,
                                     counted(missing, "other"), whole_seconds(now - p.ordered_at))
                       : "";
  return p.waiting > 0 ? fmt::format(" {} of them waiting for the next generation,", p.waiting) : "";
}

std::string who_comes(const core::JobMachine::Progress& p, Instant now) {
  if (p.newcomers > 0) return fmt::format(" {} more starting,", p.newcomers);
  return p.newcomers_at && *p.newcomers_at > now
             ? fmt::format(" more start in {},", whole_seconds(*p.newcomers_at - now))
             : "";
}

std::string activity(const core::JobMachine::Progress& p, Instant now, Duration elapsed, Duration grace) {
  using Phase = core::JobMachine::Phase;
  const auto time = whole_seconds(elapsed);
  switch (p.phase) {
    case Phase::gathering:
      // No host is known: a discovery is asked for them.
      if (p.hosts == 0) return fmt::format("waiting for the host discovery, {}", time);
      return fmt::format("connecting: {} of {} hosts, {}", p.hosts_ready, p.hosts, time);
    case Phase::forming:
      return fmt::format("starting: {} of {}, {}", p.started, counted(p.ranks, "rank"), time);
    case Phase::running:
      return fmt::format("{} of {} {},{}{}{} {}", p.alive, counted(p.ranks, "rank"),
                         p.joined > 0 ? "started" : "running", who_waits(p, now),
                         p.finished > 0 ? fmt::format(" {} done,", p.finished) : "", who_comes(p, now), time);
    case Phase::draining:
      if (p.ending > 0)
        return fmt::format("ending {}, {} of {}", counted(p.ending, "rank"),
                           whole_seconds(now - p.drained_at), whole_seconds(grace));
      break;
    case Phase::cooling:
      return fmt::format("waiting for the next generation, {}", time);
    case Phase::closing:
    case Phase::done:
      break;
  }
  return fmt::format("clearing up, {}", time);
}

}  // namespace

std::string status_line(const core::JobMachine::Progress& progress, Instant now, Duration elapsed,
                        Duration grace) {
  return (progress.generation > 1 ? fmt::format("generation {}: ", progress.generation) : "") +
         activity(progress, now, elapsed, grace);
}

}  // namespace trainrun::output
