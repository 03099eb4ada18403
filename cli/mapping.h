// Where the ranks go, on the hosts that were chosen: --map-by, --rank-by, --ppn, --nolocal, --rankfile. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/config.h"
#include "cli/host_choice.h"
#include "cli/settings.h"
#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"

namespace trainrun::cli {

// Takes hosts that get no rank out of `choice`, and adds those of a rank file where nobody named any. Lines
// for people are added to `notes`.
Result<void> read_mapping(const Settings& settings, const Inputs& inputs, HostChoice& choice, JobSpec& job,
                          std::vector<std::string>& notes);

// When the ranks are counted: with --ppn N and more of them than N a host, hosts that may be oversubscribed
// are dealt N ranks each, round and round, as Hydra does; else it is an Error.
Result<void> deal_rounds(const Settings& settings, JobSpec& job);

// The same where no --ppn says how many: as Hydra fills hosts with more ranks than slots, slot by slot, and
// then again from the first.
void deal_slots_again(JobSpec& job);

}  // namespace trainrun::cli
