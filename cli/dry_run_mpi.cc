#include "cli/dry_run_mpi.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/base/utf8.h"

namespace trainrun::cli {

std::string mpi_text(const JobSpec& job, const core::Placement& placement, const ProgramsMpi& mpi) {
  if (job.compat != Compat::automatic) return {};
  std::string out;
  for (std::size_t i = 0; i < mpi.size(); ++i) {
    const auto line = [&](const std::string& what) {
      out += fmt::format("MPI: {}: {}\n", printable(job.programs[i].argv.front()), what);
    };
    const auto& [family, guessed, library, here, horovod, interpreter] = mpi[i];
    if (horovod)
      out += fmt::format("Horovod: {}: by Gloo, through trainrun's rendezvous\n",
                         printable(job.programs[i].argv.front()));
    const auto seat = std::find_if(placement.seats.begin(), placement.seats.end(),
                                   [i](const core::Seat& one) { return one.program == i; });
    const std::string guess = guessed ? " (a guess by what it may run)" : "";
    if (!here)
      line(seat == placement.seats.end()
               ? "decided at start"
               : fmt::format("decided on {} at start", job.hosts.hosts[seat->host.value].name));
    else if (family == wire::MpiFamily::mpich)
      line("MPICH, by PMI-1" + guess);
    else if (family == wire::MpiFamily::open_mpi && library.empty())
      line("Open MPI, and there is no libpmix here that serves it" + guess);
    else if (family == wire::MpiFamily::open_mpi)
      line(fmt::format("Open MPI, by PMIx of {}, which adds variables of its own{}", printable(library),
                       guess));
    else if (interpreter && job.as_mpi_launcher)
      line(
          "none that is known; PMIx is offered where there is a libpmix, since what it runs may load an Open "
          "MPI");
  }
  return out;
}

nlohmann::ordered_json mpi_json(const ProgramMpi& mpi) {
  if (!mpi.here) return {{"family", "decided at start"}};
  switch (mpi.family) {
    case wire::MpiFamily::none:
      break;
    case wire::MpiFamily::mpich:
      return {{"family", "mpich"}, {"guessed", mpi.guessed}};
    case wire::MpiFamily::open_mpi:
      return {{"family", "openmpi"}, {"guessed", mpi.guessed}, {"library", mpi.library}};
  }
  return {{"family", "none"}};
}

bool has_pmix(const ProgramsMpi& mpi) {
  return std::any_of(mpi.begin(), mpi.end(), [](const ProgramMpi& one) {
    return one.family == wire::MpiFamily::open_mpi && !one.library.empty();
  });
}

bool has_horovod(const JobSpec& job, const ProgramsMpi& mpi) {
  if (job.compat != Compat::automatic) return job.compat == Compat::horovod;
  return std::any_of(mpi.begin(), mpi.end(), [](const ProgramMpi& one) { return one.horovod; });
}

}  // namespace trainrun::cli
