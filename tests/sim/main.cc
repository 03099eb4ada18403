// sim: plays random schedules against the brain until one breaks an invariant; see tests/README.md.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

#include "tests/sim/coverage.h"
#include "tests/sim/simulation.h"

namespace {

using namespace trainrun;
using namespace trainrun::sim;

struct Arguments {
  std::uint64_t schedules = 1000, seed = 1, start = 0;
  std::optional<std::uint64_t> only;
  std::uint64_t failures = 1;  // stop after so many
  bool trace = false, keep_given = false, shrink = true, coverage = false, digest = false;
  std::vector<std::size_t> keep;  // of a shrunk schedule: these faults alone
};

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--trace" || flag == "--no-shrink") {
      (flag == "--trace" ? out.trace : out.shrink) = flag == "--trace";
      continue;
    }
    if (flag == "--coverage" || flag == "--digest") {
      (flag == "--coverage" ? out.coverage : out.digest) = true;
      continue;
    }
    if (i + 1 >= argc) return std::nullopt;
    std::string_view text = argv[++i];
    if (flag == "--keep") {
      out.keep_given = true;
      while (!text.empty()) {
        const auto comma = text.find(',');
        const auto one = number(text.substr(0, comma));
        if (!one) return std::nullopt;
        out.keep.push_back(*one);
        text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
      }
      continue;
    }
    const auto value = number(text);
    if (!value) return std::nullopt;
    if (flag == "--schedules")
      out.schedules = *value;
    else if (flag == "--seed")
      out.seed = *value;
    else if (flag == "--failures")
      out.failures = *value;
    else if (flag == "--start")
      out.start = *value;
    else if (flag == "--only")
      out.only = *value;
    else
      return std::nullopt;
  }
  return out;
}

// Leaves out one fault after the other, while what is left still fails.
std::vector<bool> shrink(const Scenario& scenario, std::vector<bool> skip, std::string& why) {
  for (bool less = true; less;) {
    less = false;
    for (std::size_t i = 0; i < skip.size(); ++i) {
      if (skip[i]) continue;
      skip[i] = true;
      if (const auto broken = Simulation(scenario, skip, false).run(); !broken.empty()) {
        why = broken;
        less = true;
      } else {
        skip[i] = false;
      }
    }
  }
  return skip;
}

void report(const Arguments& arguments, std::uint64_t schedule, const Scenario& scenario, std::string why,
            std::vector<bool> skip) {
  fmt::print("schedule {} of seed {} fails: {}\n  {}\n  replay: sim --seed {} --only {} --trace\n", schedule,
             arguments.seed, why, scenario.describe(), arguments.seed, schedule);
  if (!arguments.shrink) return;
  skip = shrink(scenario, std::move(skip), why);
  std::string keep;
  for (std::size_t i = 0; i < skip.size(); ++i) {
    if (skip[i]) continue;
    keep += (keep.empty() ? "" : ",") + std::to_string(i);
    fmt::print("    {}\n", describe(scenario.faults[i]));
  }
  fmt::print("  shrunk: sim --seed {} --only {} --keep {} --trace\n    {}\n", arguments.seed, schedule,
             keep.empty() ? "''" : keep, why);
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  if (!arguments) {
    fmt::print(stderr,
               "usage: sim [--schedules N] [--seed S] [--start K] [--failures N] [--only K [--keep "
               "FAULT,...]] [--trace] "
               "[--coverage] [--digest]\n");
    return 2;
  }
  const auto first = arguments->only.value_or(arguments->start);
  const auto count = arguments->only ? 1 : arguments->schedules;
  Stats all;
  std::uint64_t failed = 0;
  for (auto schedule = first; schedule < first + count; ++schedule) {
    const auto scenario = scenario_of(schedule_seed(arguments->seed, schedule));
    std::vector<bool> skip(scenario.faults.size(), arguments->keep_given);
    for (const auto kept : arguments->keep)
      if (kept < skip.size()) skip[kept] = false;
    if (arguments->trace) fmt::print("{}\n", scenario.describe());
    Simulation simulation(scenario, skip, arguments->trace);
    if (arguments->coverage) simulation.cover();
    if (arguments->digest) simulation.digest();
    if (auto why = simulation.run(); !why.empty()) {
      report(*arguments, schedule, scenario, std::move(why), std::move(skip));
      if (++failed >= arguments->failures) return 1;
    }
    all.add(simulation.stats());
  }
  fmt::print(
      "{} schedules of seed {}: {} events, {} faults, {} generations ({} in place), {} restarts, {} "
      "overlaps\n",
      all.schedules, arguments->seed, all.steps, all.faults, all.generations, all.in_place, all.restarts,
      all.overlaps);
  for (const auto& [name, times] : all.outcomes) fmt::print("  {:>8} {}\n", times, name);
  if (arguments->coverage) print_coverage(all);
  if (arguments->digest) fmt::print("decided: {:016x}\n", all.digest.value());
  return failed > 0 ? 1 : 0;
}
