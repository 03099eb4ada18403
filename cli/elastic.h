// What the settings of an elastic job mean together: whether the job is elastic at all, where its hosts come
// from, and between which sizes its world may be. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/config.h"
#include "cli/settings.h"
#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"

namespace trainrun::cli {

// --max-np of horovodrun where none is given: more than any hosts hold.
constexpr int unbounded_ranks = 65535;

// Everything but the sizes of the world. A job is elastic when --on-failure says so, or when nothing but
// another flag of an elastic job does: see elastic_origin.
Result<Elastic> read_elastic(const Settings& settings, const Inputs& inputs);

// Whether --nnodes MIN:MAX, torchrun's, makes the job elastic, and nobody said how often it restarts.
bool leaves_restarts_to_torchrun(const Settings& settings);

// The setting that made the job elastic, as its user wrote it; empty when none did.
std::string elastic_origin(const Settings& settings);

// Lines about flags of an elastic job that change nothing in this one. What a file or TRAINRUN_* says may be
// meant for other jobs.
std::vector<std::string> notes_on_idle_flags(const Settings& settings, const Elastic& elastic);

// What is known when the sizes are chosen.
struct SizeFacts {
  bool elastic = false;      // Elastic::enabled()
  bool discovers = false;    // hosts come later, from the discovery
  bool hosts_named = false;  // else this host alone, with as many slots as are asked for
  std::size_t hosts = 0;     // how many were named
  int room = 0;              // ranks that the named hosts hold
  int ppr = 0;               // --ppn
  std::size_t programs = 1;  // parts of an MPMD line
  int np = 0;                // -np; 0: nobody gave it
  std::string np_origin = {};
};

// 0 in a field: nothing was said, so the default holds (np: all slots; min and max: np).
struct Sizes {
  int np = 0, min = 0, max = 0;
  std::string np_origin{}, min_origin{}, max_origin{};
  std::vector<std::string> notes{};
};
Result<Sizes> choose_sizes(const Settings& settings, const SizeFacts& facts);

// Ranks that the job's hosts hold, by their slots and --ppn.
int room_of(const JobSpec& job);

// Whether the named hosts hold the smallest world; the error says what to write.
Result<void> check_room(const Settings& settings, const JobSpec& job);

// The first world on hosts that are known, as it will be placed if they all answer. Code::usage when they do
// not hold it.
Result<core::Placement> first_world(const JobSpec& job);

}  // namespace trainrun::cli
