#include "launcher/output/replay_text.h"

#include <fmt/format.h>

#include <chrono>

#include "launcher/output/words.h"

namespace trainrun::output {

namespace {

constexpr auto indent = "                    ";

std::string ran(const core::journal::Header& header) {
  return fmt::format("trainrun {}{}", header.version, header.build.empty() ? "" : " build " + header.build);
}

}  // namespace

std::vector<std::string> journal_head(const core::journal::Header& header, const std::string& here) {
  const auto& job = header.job;
  std::vector<std::string> lines{
      fmt::format("job {} began at {}: {} host{}, {} rank{}{}", job.id, header.time, job.hosts.hosts.size(),
                  job.hosts.hosts.size() == 1 ? "" : "s", job.world_size(), job.world_size() == 1 ? "" : "s",
                  job.elastic.enabled() ? ", elastic" : "")};
  lines.push_back("written by " + ran(header) +
                  (header.build == here ? "" : fmt::format(", replayed by build {}", here)));
  for (std::uint32_t i = 0; i < job.hosts.hosts.size(); ++i)
    lines.push_back(
        fmt::format("host {}: {} slots={}", i, job.hosts.hosts[i].name, job.hosts.hosts[i].slots));
  return lines;
}

std::vector<std::string> step_lines(std::uint64_t number, const core::journal::Step& step,
                                    const core::JobActions& actions, Instant began) {
  const auto since = std::chrono::duration<double>(step.since).count();
  std::vector<std::string> lines{fmt::format("{:>6} {:>11.6f}  {}", number, since, print(step.event, began))};
  for (const auto& action : actions) {
    const auto* tell = std::get_if<core::Tell>(&action);
    if (tell == nullptr) {
      lines.push_back(fmt::format("{}-> {}", indent, print(action, began)));
      continue;
    }
    for (const auto& line : words(tell->notice)) lines.push_back(fmt::format("{}\"{}\"", indent, line));
  }
  return lines;
}

}  // namespace trainrun::output
