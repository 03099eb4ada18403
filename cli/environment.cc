#include "cli/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/program.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"
#include "launcher/core/dialects.h"

namespace trainrun::cli {

namespace {

// Whether a surrounding job, or a person, tells a worker or a script something by this variable. A
// TRAINRUN_HOST outside of a job is a slip for TRAINRUN_HOSTS.
bool is_told(std::string_view name, const std::vector<EnvVar>& environment) {
  constexpr std::string_view others[] = {
      "TRAINRUN_CURRENT_HOSTS", "TRAINRUN_FAILED_HOSTS",  // of discovery scripts
      "TRAINRUN_OP_TIMEOUT",    "TRAINRUN_INIT_TIMEOUT", "TRAINRUN_COMM_LIBRARY",
      "TRAINRUN_COMM_BACKEND",  // of programs on comm
      "TRAINRUN_NCCL_LIB",      "TRAINRUN_CUDA_LIB",     "TRAINRUN_NCCL_ABORT_TIMEOUT",
      "TRAINRUN_FUSION_BYTES",  "TRAINRUN_FAULT",        "TRAINRUN_REQUIRE"};  // of tests
  if (name == "TRAINRUN_HOST") return !variable(environment, "TRAINRUN_RENDEZVOUS").empty();
  return core::is_always_set(name) ||
         std::find(std::begin(others), std::end(others), name) != std::end(others);
}

}  // namespace

EnvironmentLayer read_environment(const std::vector<EnvVar>& environment) {
  static constexpr std::string_view prefix = "TRAINRUN_";
  EnvironmentLayer out;
  const bool any = std::any_of(environment.begin(), environment.end(),
                               [](const EnvVar& one) { return one.first.starts_with(prefix); });
  if (!any)
    return out;  // the names of all options cost more than the rest of this, and most starts have none
  std::vector<std::string> names;
  for (const auto& row : options()) {
    if (!row.environment().empty()) names.push_back(row.environment().substr(prefix.size()));
  }
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(prefix) || value.empty()) continue;
    bool known = false;
    for (const auto& row : options()) {
      if (row.environment() != name) continue;
      known = true;
      if (row.type == Type::export_name) {
        for (const auto word : split(value, ','))
          out.settings.push_back({row.option, std::string(trim(word)), name});
      } else {
        out.settings.push_back({row.option, value, name});
      }
    }
    if (known) continue;
    if (is_told(name, environment)) continue;
    const auto near = nearest(std::string_view(name).substr(prefix.size()), names);
    out.notes.push_back(fmt::format("{} is not a trainrun setting{}", printable(name),
                                    near ? fmt::format(" (did you mean {}{}?)", prefix, *near) : ""));
  }
  return out;
}

}  // namespace trainrun::cli
