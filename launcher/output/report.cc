#include "launcher/output/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launcher/base/advice.h"
#include "launcher/base/rank_ranges.h"
#include "launcher/base/strings.h"
#include "launcher/core/host_errors.h"
#include "launcher/core/ranks.h"
#include "launcher/core/restart_budget.h"
#include "launcher/output/failure_advice.h"
#include "launcher/output/words.h"

namespace trainrun::output {
namespace {

using core::Outcome;

// What the rank wrote down about its end, and of its last words what they say besides: Python prints the same
// exception there, in which comm says what is `reported`.
void last_words(std::vector<std::string>& lines, const ReportFacts& facts, const std::string& reported) {
  const auto add = [&lines](std::string_view head, const std::vector<std::string>& words) {
    for (std::size_t i = 0; i < words.size(); ++i)
      lines.push_back(fmt::format("{:<14}{}", i == 0 ? head : "", words[i]));
  };
  if (facts.recorded) {
    auto said = facts.recorded->what;
    if (!facts.recorded->where.empty()) said.push_back("at " + facts.recorded->where);
    add("  exception", said);
    if (any_line_has(facts.last_words, facts.recorded->what.front())) return;
  }
  auto words = facts.last_words;
  if (!reported.empty())
    std::erase_if(words, [&](const std::string& line) { return line.find(reported) != std::string::npos; });
  add("  last words", words);
  if (facts.last_words.empty() && !facts.recorded) add("  last output", facts.last_output);
}

// "rank 1", "ranks 0-3,7"; how many they are where that would be long.
std::string finished_text(const core::Outcome& outcome) {
  constexpr std::size_t longest = 40;
  const auto ranges = as_ranges(outcome.finished);
  if (outcome.finished.empty() || ranges.size() > longest) return counted(outcome.others.finished, "rank");
  return fmt::format("rank{} {}", outcome.finished.size() == 1 ? "" : "s", ranges);
}

std::string what_became_of_others(const core::Outcome& outcome, bool this_host = false) {
  const auto& tally = outcome.others;
  std::vector<std::string> parts;
  const auto add = [&parts](int count, std::string_view what) {
    if (count > 0) parts.push_back(fmt::format("{} {}", counted(count, "rank"), what));
  };
  add(tally.terminated, "ended after SIGTERM");
  add(tally.killed, "needed SIGKILL");
  add(tally.failed, "failed too");
  add(tally.raised, "raised an exception too");
  add(tally.lost, this_host         ? "ended with it"
                  : tally.lost == 1 ? "lost with its host"
                                    : "lost with their host");
  add(tally.left, tally.left == 1 ? "left for its agent to end" : "left for their agents to end");
  if (tally.finished > 0) parts.push_back(finished_text(outcome) + " had finished");
  add(tally.not_started, "never started");
  return list_names(parts);
}

// Those that failed by themselves besides the first: whoever doubts the verdict looks there.
void also_failed(std::vector<std::string>& lines, const JobSpec& job,
                 const std::vector<core::Failure>& failures) {
  constexpr std::size_t most = 4;
  for (std::size_t i = 0; i < std::min(most, failures.size()); ++i) {
    const auto& it = failures[i];
    lines.push_back(fmt::format("{}rank {} on {} {}", i == 0 ? "  also failed " : "              ",
                                it.rank.value, job.hosts.hosts[it.host.value].name, it.status.describe()));
    if (it.lost_peer) lines.back() += ", having lost a peer";
  }
  if (failures.size() > most) lines.back() += fmt::format(", and {} more ranks", failures.size() - most);
}

void add_hint(std::vector<std::string>& lines, const std::string& hint) {
  if (hint.empty()) return;
  const auto said = advice(hint);  // "try: this", or "try this"
  lines.push_back("  try         " + said.substr(said.find(' ') + 1));
}

bool is_stopped(const Outcome& outcome) {
  const auto* hung = outcome.why ? std::get_if<core::cause::Hung>(&*outcome.why) : nullptr;
  return hung != nullptr && !hung->stopped.empty();
}

bool names_ranks(const Outcome& outcome) {
  const auto* broken = outcome.why ? std::get_if<core::cause::WorldBroken>(&*outcome.why) : nullptr;
  return broken != nullptr && !broken->ranks.empty();
}

void worker_failed(std::vector<std::string>& lines, const JobSpec& job, const Outcome& outcome,
                   const ReportFacts& facts) {
  const auto& cause = *outcome.cause;
  const auto& host = job.hosts.hosts[cause.host.value].name;
  auto words = facts.last_words;
  if (outcome.why) words.push_back(output::words(*outcome.why));
  if (facts.recorded) words.insert(words.end(), facts.recorded->what.begin(), facts.recorded->what.end());
  const auto advice = advise(job, cause, host, words, facts.raised || facts.recorded);
  // Nobody else failed before: what it lost had ended well, or lives and does not answer.
  const bool lost_finished = cause.lost_peer && outcome.others.finished > 0;
  const bool in_vain =
      cause.lost_peer && !lost_finished && outcome.also_failed.empty() && job.world_size() > 1;
  lines.push_back(fmt::format("trainrun: rank {} on {} {}{}, {} after the start", cause.rank.value, host,
                              advice.how,
                              lost_finished ? ", having lost a peer"
                              : in_vain     ? ", having lost a peer or waited for one in vain"
                                            : "",
                              format_duration(outcome.after)));
  lines.push_back(fmt::format("  first       rank {}  host {}{}{}", cause.rank.value, host,
                              cause.pid != 0 ? fmt::format("  pid {}", cause.pid) : "",
                              facts.wall_clock.empty() ? "" : "  at " + facts.wall_clock));
  if (cause.error > milliseconds(1))
    lines.back() += fmt::format(" (±{} ms)", std::chrono::duration_cast<milliseconds>(cause.error).count());
  if (!cause.out_of_memory.empty()) lines.push_back("  evidence    " + cause.out_of_memory);
  for (const auto lost : outcome.also_lost)
    lines.push_back(fmt::format("  lost before host {}", job.hosts.hosts[lost.value].name));
  const auto reported = outcome.why ? output::words(*outcome.why) : std::string();
  if (!reported.empty()) lines.push_back("  reported    " + reported);
  last_words(lines, facts, reported);
  const auto others = what_became_of_others(outcome);
  if (!others.empty()) lines.push_back("  then        " + others);
  also_failed(lines, job, outcome.also_failed);
  add_hint(
      lines,
      lost_finished
          ? fmt::format("see why {} ended with code 0 before the others: do all ranks take as many steps?",
                        finished_text(outcome))
      : names_ranks(outcome) ? "look at the reported rank first; a --hang-timeout shorter than that time-out "
                               "shows what each does then"
      : in_vain              ? "no other rank has failed: one may be stuck or stopped; "
                               "--hang-timeout 1m shows what each does then"
                             : advice.hint);
}

// What helps many of them is said once, after the last.
void hosts_failed(std::vector<std::string>& lines, const std::vector<Error>& errors) {
  for (auto it = errors.begin(); it != errors.end(); ++it) {
    lines.push_back("  " + it->message);
    if (it->hint.empty() ||
        std::any_of(std::next(it), errors.end(), [it](const auto& later) { return later.hint == it->hint; }))
      continue;
    lines.push_back("      " + advice(it->hint));
  }
}

void no_restart_left(std::vector<std::string>& lines, const JobSpec& job, const Outcome& outcome) {
  if (!outcome.out_of_restarts) return;
  const auto& limit = job.elastic.limit;
  const auto flag = core::flag_of(limit);
  lines.push_back(limit.count == 0 ? fmt::format("  restarts    none allowed ({} 0)", flag)
                                   : fmt::format("  restarts    none left: {} {} ({})", limit.count,
                                                 core::describe_window(limit), flag));
}

std::string tally(int number, std::string_view noun,
                  const std::vector<std::pair<core::CauseKind, int>>& causes) {
  std::vector<std::string> each;
  for (const auto& [cause, count] : causes)
    each.push_back(count == 1 ? std::string(core::to_string(cause))
                              : fmt::format("{} {}x", core::to_string(cause), count));
  return fmt::format("{} {}{}{}", number, noun, number == 1 ? "" : "s",
                     each.empty() ? "" : fmt::format(" ({})", fmt::join(each, ", ")));
}

// "4 generations; 3 restarts (host lost, rank failed 2x), which took 3.4 s in all; 1 change (hosts came)".
void history(std::vector<std::string>& lines, const JobSpec& job, const Outcome& outcome) {
  if (!job.elastic.enabled() || outcome.generation.value < 2) return;
  if (job.quiet && outcome.kind == Outcome::Kind::success) return;
  auto line = fmt::format("trainrun: {} generations", outcome.generation.value);
  if (outcome.restarts > 0)
    line += fmt::format("; {}, which took {}{}", tally(outcome.restarts, "restart", outcome.causes),
                        format_duration(outcome.lost_time), outcome.restarts > 1 ? " in all" : "");
  int changes = 0;
  for (const auto& [cause, count] : outcome.changes) changes += count;
  if (changes > 0) line += "; " + tally(changes, "change", outcome.changes);
  lines.push_back(std::move(line));
}

}  // namespace

std::vector<std::string> report_lines(const JobSpec& job, const Outcome& outcome, const ReportFacts& facts) {
  std::vector<std::string> lines;
  const auto others = what_became_of_others(outcome, facts.this_host);
  const auto name = [&job](HostIndex host) { return job.hosts.hosts[host.value].name; };
  const auto reason = outcome.why ? words(*outcome.why) : std::string{};
  const auto advice = outcome.why ? hint(*outcome.why) : std::string{};
  const auto then = others.empty() ? std::string{} : "; " + others;
  switch (outcome.kind) {
    case Outcome::Kind::success:
      break;
    case Outcome::Kind::worker_failed:
      worker_failed(lines, job, outcome, facts);
      break;
    case Outcome::Kind::host_lost:
      if (outcome.gave_us_up) {
        lines.push_back(
            fmt::format("trainrun: {}; the ranks on {} are lost{}", reason, name(outcome.host), then));
        add_hint(lines,
                 "if it was stopped: with ^Z or `kill -TSTP` agents are told of it. If it was too busy: give "
                 "--host-timeout more, or start fewer ranks");
        break;
      }
      if (const auto* told = outcome.why ? std::get_if<core::cause::HostLeaves>(&*outcome.why) : nullptr) {
        const auto agent = facts.this_host ? std::string("this host's agent")
                                           : fmt::format("the agent on {}", name(outcome.host));
        lines.push_back(fmt::format("trainrun: {} was told to end {} after the start: {}{}",
                                    core::name_with_ranks(agent, outcome.ranks),
                                    format_duration(outcome.after), told->reason, then));
        add_hint(lines, "see who sent the signal: a batch system, systemd, a shutdown, `pkill trainrun`");
        break;
      }
      if (facts.this_host) {
        lines.push_back(fmt::format("trainrun: {} was lost {} after the start: {}{}",
                                    core::name_with_ranks("this host's agent", outcome.ranks),
                                    format_duration(outcome.after), reason, then));
        add_hint(lines,
                 "see who ended or stopped it: the kernel's OOM killer (dmesg), a limit, an administrator");
        break;
      }
      lines.push_back(
          fmt::format("trainrun: host {} was lost {} after the start: {}{}",
                      core::name_with_ranks(job.hosts.hosts[outcome.host.value].name, outcome.ranks),
                      format_duration(outcome.after), reason, then));
      for (const auto host : outcome.also_lost)
        lines.push_back("  also lost   " + job.hosts.hosts[host.value].name);
      add_hint(lines,
               "see whether the host answers; its agent, if it lives, ends what is left within --grace");
      break;
    case Outcome::Kind::hosts_failed:
      lines.push_back(outcome.host_errors.size() < job.hosts.hosts.size()
                          ? fmt::format("trainrun: {} of {} hosts could not be used; nothing was started",
                                        outcome.host_errors.size(), job.hosts.hosts.size())
                          : "trainrun: no host could be used; nothing was started");
      hosts_failed(lines, core::grouped(outcome.host_errors, name));
      break;
    case Outcome::Kind::port_refused:
    case Outcome::Kind::mpi_mixed:
      lines.push_back("trainrun: " + reason);
      add_hint(lines, advice);
      break;
    case Outcome::Kind::user_signal:
      // Who waited for the end wants to know for how long.
      lines.push_back(fmt::format(
          "trainrun: ended by {} {} after the start{}{}", core::who_asked(outcome.signal, outcome.by_ctl),
          format_duration(outcome.after),
          outcome.took < seconds(1) ? ""
                                    : fmt::format(", {} after the signal", format_duration(outcome.took)),
          then));
      break;
    case Outcome::Kind::output_closed:
      lines.push_back("trainrun: nobody reads the output any more (as with | head): the job was ended" +
                      then);
      break;
    case Outcome::Kind::timed_out:
      lines.push_back(fmt::format("trainrun: the time limit passed (--timeout {}){}",
                                  job.timeout ? format_duration(*job.timeout) : "", then));
      add_hint(lines, "give --timeout more, or leave it out");
      break;
    case Outcome::Kind::hung:
      lines.push_back(
          fmt::format("trainrun: {}, {} after the start{}", reason, format_duration(outcome.after), then));
      if (is_stopped(outcome))
        add_hint(lines,
                 "see who stopped it (SIGSTOP, a debugger, a batch system): kill -CONT lets a process go on");
      else
        add_hint(lines, advice.empty()
                            ? fmt::format("{}{}",
                                          job.quiet ? "run it without -q to see what each rank does then"
                                                    : "see the evidence above",
                                          job.elastic.hang_timeout
                                              ? "; a slow step or start needs a longer --hang-timeout"
                                              : "")
                            : advice);
      break;
    case Outcome::Kind::unfinished:
      lines.push_back(
          fmt::format("trainrun: {}, {} after the start{}", reason, format_duration(outcome.after), then));
      add_hint(lines, advice);
      break;
    case Outcome::Kind::exchange_lost:
      lines.push_back(
          fmt::format("trainrun: {}, {} after the start{}", reason, format_duration(outcome.after), then));
      add_hint(lines, "see who ended it, if somebody did: the kernel's OOM killer (dmesg), an administrator");
      break;
    case Outcome::Kind::no_hosts:
      lines.push_back(fmt::format("trainrun: {}", reason));
      for (const auto& error : core::grouped(outcome.host_errors, name))
        lines.push_back("  " + error.message);
      add_hint(lines, "see whether the hosts are up and listed, or allow a smaller world with --min-np");
      break;
  }
  no_restart_left(lines, job, outcome);
  history(lines, job, outcome);
  return lines;
}

}  // namespace trainrun::output
