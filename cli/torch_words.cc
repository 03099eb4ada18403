#include "cli/torch_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/program.h"
#include "cli/value.h"
#include "launcher/base/utf8.h"

namespace trainrun::cli {

namespace {

Scheduling scheduling_of(std::string_view word) {
  if (word == "batch") return Scheduling::batch;
  return word == "normal" ? Scheduling::normal : Scheduling::automatic;
}

}  // namespace

void read_torch_settings(const Settings& settings, const Inputs& inputs, Resolved& out) {
  JobSpec& job = out.job;
  if (settings.text(Option::torch_store, "") == "trainrun") job.torch_store = TorchStore::trainrun;
  job.preload = parse_preload(settings.text(Option::preload, "")).value_or(PreloadSpec{});
  job.role = settings.text(Option::role, "default");
  job.run_id = settings.text(Option::rdzv_id, "");
  job.scheduling = scheduling_of(settings.text(Option::sched, "auto"));
  job.virtual_local_rank = settings.flag(Option::virtual_local_rank);
  if (job.virtual_local_rank && job.gpus_per_rank == 0) job.gpus_per_rank = 1;
  if (const Setting* ranks = settings.get(Option::local_ranks_filter))
    job.only_local_ranks = parse_ranks(ranks->value).value_or(std::vector<int>{});
  job.redirects = parse_redirects(settings.text(Option::redirects, "0")).value_or(std::vector<Redirect>{});
  const bool hides = std::any_of(job.redirects.begin(), job.redirects.end(),
                                 [](const Redirect& one) { return one.out || one.err; });
  if (!hides) job.redirects.clear();
  if (!hides || !job.output_directory.empty()) return;
  // torchrun makes a directory for it, too.
  auto parent = variable(inputs.environment, "TMPDIR");
  if (!parent.starts_with('/') || !inputs.is_directory(parent)) parent = "/tmp";
  job.output_directory = fmt::format("{}/trainrun-{}", parent, job.id);
  out.notes.push_back(fmt::format("{}: what is not shown goes to {}", settings.get(Option::redirects)->origin,
                                  printable(job.output_directory)));
}

}  // namespace trainrun::cli
