// --rankfile, Open MPI's file of ranks: `rank 0=gpu1 slot=0:0-3` for each. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

struct RankLine {
  std::string host;                // as it is written, or "+n0": the first of the job's hosts
  std::vector<CoreRange> cores{};  // empty: there was no slot=
  std::size_t line = 0;            // of the file
};

// By rank, from 0 and without holes. An Error (Code::config) names file and line.
//   slot=2        core 2 of the host       slot=0-3,8    some of them
//   slot=1:0-2    cores of socket 1        slot=1:*      all of them
Result<std::vector<RankLine>> parse_rank_file(std::string_view text, std::string_view name);

}  // namespace trainrun::cli
