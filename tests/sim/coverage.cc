#include "tests/sim/coverage.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trainrun::sim {
namespace {

using core::Deadline;
using core::JobPhase;

template <std::size_t... I>
std::vector<std::string> names_of(std::index_sequence<I...>) {
  return {std::string(std::variant_alternative_t<I, core::JobEvent::Alternatives>::record_name)...};
}

// What may come in a phase, by name; a deadline is an event each.
std::vector<std::string> all_events() {
  auto names = names_of(std::make_index_sequence<std::variant_size_v<core::JobEvent::Alternatives>>());
  const std::string passed(core::DeadlinePassed::record_name);
  std::erase(names, passed);
  for (int one = 0; one <= static_cast<int>(core::last_deadline); ++one)
    names.push_back(fmt::format("{} {}", passed, to_string(static_cast<Deadline>(one))));
  return names;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> some) {
  for (const auto one : some)
    if (name == one) return true;
  return false;
}

// Why schedules do not bring it there; empty: nobody knows yet.
std::string_view why_not(JobPhase phase, const std::string& event) {
  if (is_one_of(event, {"worker aborted", "exchange broken"})) return "ranks of MPI alone say so";
  if (is_one_of(event, {"discovery problem", "ranks absent", "worker inspected", "inspection done"}) &&
      phase != JobPhase::running)
    return "it changes no decision, or nobody asked";
  if (is_one_of(event, {"discovery problem", "ranks absent"})) return "it changes no decision";
  if (event == "begin") return "it comes first, and once";
  const bool anywhere = event.ends_with(" job") || event.ends_with(" hosts") || event.ends_with(" leave");
  const bool belongs = (phase == JobPhase::gathering && event.ends_with(" notice")) ||
                       (phase == JobPhase::forming && event.ends_with(" finish"));
  if (event.starts_with("deadline passed") && !belongs && !anywhere) return "it is not armed there";
  if (phase == JobPhase::done) return "nobody listens any more";
  const bool of_worlds =
      is_one_of(event, {"port reserved", "port refused", "worker started", "worker exited", "worker finished",
                        "worker not started", "member joined", "world joined", "world broken", "member waits",
                        "world progressed", "host swept"});
  if (phase == JobPhase::gathering && of_worlds) return "no world was begun";
  return {};
}

}  // namespace

void print_coverage(const Stats& stats) {
  int reached = 0, explained = 0;
  std::string missing;
  for (int one = 0; one <= static_cast<int>(JobPhase::done); ++one) {
    const auto phase = static_cast<JobPhase>(one);
    for (const auto& event : all_events()) {
      if (stats.reached.contains({to_string(phase), event})) {
        ++reached;
        continue;
      }
      const auto why = why_not(phase, event);
      if (!why.empty()) ++explained;
      missing +=
          fmt::format("  {:>10}, {:<28} {}\n", to_string(phase), event, why.empty() ? "not drawn" : why);
    }
  }
  fmt::print(
      "{} pairs of phase and event were reached; {} that cannot be or change nothing were not; never:\n{}",
      reached, explained, missing);
}

}  // namespace trainrun::sim
