#include "cli/world_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "launcher/base/strings.h"
#include "launcher/core/script.h"

namespace trainrun::cli {
namespace {

void note_launchers(const JobSpec& job, const core::Placement& placed, std::vector<std::string>& notes) {
  for (std::size_t part = 0; part < job.programs.size(); ++part) {
    const auto launcher = core::launcher_of(job.programs[part].argv);
    if (launcher.empty()) continue;
    int most = 0;
    std::map<HostIndex, int> on;
    for (const auto& seat : placed.seats)
      if (seat.program == part) most = std::max(most, ++on[seat.host]);
    if (most > 1)
      notes.push_back(
          fmt::format("{} starts ranks by itself, and {} of it start on one host: each {} train alone (try: "
                      "trainrun -np N and the script, without {}; or --ppn 1, for one {} a host)",
                      launcher, most, launcher == "accelerate" ? "may" : "will", launcher, launcher));
  }
}

}  // namespace

void note_first_world(const JobSpec& job, const core::Placement& placed, std::vector<std::string>& notes) {
  const auto size = static_cast<int>(placed.seats.size());
  if (size < job.world_size())
    notes.push_back(fmt::format("-np {}: {} to begin with, all that the hosts hold", job.world_size(),
                                counted(size, "rank")));
  note_launchers(job, placed, notes);
}

}  // namespace trainrun::cli
