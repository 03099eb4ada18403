// Of --dry-run: whose MPI the programs are, as far as their files are here. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/config.h"
#include "launcher/core/placement.h"

namespace trainrun::cli {

// One for each program of the job, or none at all.
using ProgramsMpi = std::vector<ProgramMpi>;

// A line for each program that is one of MPI, or whose file is not here.
std::string mpi_text(const JobSpec& job, const core::Placement& placement, const ProgramsMpi& mpi);
nlohmann::ordered_json mpi_json(const ProgramMpi& mpi);

// Whether its ranks would find PMIx.
bool has_pmix(const ProgramsMpi& mpi);
bool has_horovod(const JobSpec& job, const ProgramsMpi& mpi);

}  // namespace trainrun::cli
