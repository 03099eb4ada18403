#include "cli/ctl_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/base/utf8.h"

namespace trainrun::cli {
namespace {

using Row = std::vector<std::string>;

// Names and notes come from other hosts in the end: they are made printable().
std::string or_dash(std::string text) { return text.empty() ? "-" : text; }

// Columns as wide as their widest word, two blanks between; numbers (marked by '>') to the right.
std::string table(const std::string& marks, const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(marks.size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? "" : "  ";
      line += marks[i] == '>' ? fmt::format("{:>{}}", row[i], widths[i])
                              : fmt::format("{:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string headline(const control::WorldView& world) {
  const auto size = world.ranks.size();
  const auto more = !world.newcomers.empty() ? fmt::format(", {} more starting", world.newcomers.size())
                    : world.newcomers_in
                        ? fmt::format(", more start in {}", format_duration(*world.newcomers_in))
                        : std::string{};
  const auto bounds = world.min_np == world.max_np ? fmt::format("exactly {}", world.min_np)
                                                   : fmt::format("{} to {}", world.min_np, world.max_np);
  if (!world.elastic)
    return fmt::format("job {}: {}, {} {}\n", printable(world.job_id), printable(world.phase), size,
                       size == 1 ? "rank" : "ranks");
  return fmt::format("job {}: generation {}, {}, {} {}{} (wanted: {}), {} of {} restarts used\n",
                     printable(world.job_id), world.generation, printable(world.phase), size,
                     size == 1 ? "rank" : "ranks", more, bounds, world.restarts_used, world.restart_limit);
}

}  // namespace

std::string world_text(const control::WorldView& world) {
  auto out = headline(world);
  std::vector<Row> ranks{{"rank", "host", "local", "pid", "state", "since"}};
  for (const auto* some : {&world.ranks, &world.newcomers})
    for (const auto& rank : *some)
      ranks.push_back(
          {fmt::format("{}", rank.rank), or_dash(printable(rank.host)), fmt::format("{}", rank.local_rank),
           rank.pid > 0 ? fmt::format("{}", rank.pid) : std::string("-"), or_dash(printable(rank.state)),
           rank.age ? format_duration(*rank.age) : std::string("-")});
  if (ranks.size() > 1) out += "\n" + table("><>><>", ranks);
  std::vector<Row> hosts{{"host", "state", "slots", "ranks", "cool-down", "note"}};
  for (const auto& host : world.hosts)
    hosts.push_back({or_dash(printable(host.name)), or_dash(printable(host.state)),
                     fmt::format("{}", host.slots), fmt::format("{}", host.ranks),
                     host.cooldown ? format_duration(*host.cooldown) : std::string("-"),
                     printable(host.note)});
  if (hosts.size() > 1) out += "\n" + table("<<>>><", hosts);
  return out;
}

std::optional<std::string> after_adding(const control::WorldView& world, const std::string& name) {
  const control::HostView* host = nullptr;
  for (const auto& one : world.hosts) {
    if (one.name == name) host = &one;
  }
  if (host == nullptr || host->state == "ready") return std::string{};
  if (host->note.empty()) return host->state == "dialling" ? std::nullopt : std::optional(std::string{});
  return fmt::format("; not reached yet: {}{}", printable(host->note),
                     host->cooldown ? ", tried again in " + format_duration(*host->cooldown) : "");
}

std::string jobs_text(const std::vector<ListedJob>& jobs, std::string (*when)(std::int64_t)) {
  std::vector<Row> rows{{"job", "pid", "started", "command"}};
  for (const auto& job : jobs) {
    if (job.identity) {
      rows.push_back({printable(job.id), fmt::format("{}", job.identity->pid), when(job.identity->started),
                      printable(job.identity->command)});
    } else {
      rows.push_back({printable(job.id), "-", "-", "(does not answer)"});
    }
  }
  return table("<><<", rows);
}

}  // namespace trainrun::cli
