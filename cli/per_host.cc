#include "cli/per_host.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/host_choice.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

Result<void> count_per_host(Settings& settings, const Inputs& inputs, std::vector<std::string>& notes) {
  const Setting* given = settings.get(Option::ppn);
  if (given == nullptr || parse_unsigned<std::uint32_t>(given->value)) return {};
  const Setting asked = *given;
  const std::string said = fmt::format("{} {}", asked.origin, asked.value);
  settings.replace(Option::ppn, "1");  // so that the hosts can be chosen
  const bool discovers = settings.has(Option::discover) || settings.has(Option::host_discovery_script);
  const auto hosts = discovers ? Result<HostChoice>{} : choose_hosts(settings, inputs);
  if (!hosts) return tl::unexpected(hosts.error());
  if (discovers || !hosts->this_host_alone)
    return fail(Code::usage, fmt::format("{}: what other hosts have is not known before the start", said),
                "write the number: --nproc-per-node 8");
  const LocalFacts facts = inputs.local_facts();
  const bool by_gpu = asked.value == "gpu" || (asked.value == "auto" && facts.gpus > 0);
  if (by_gpu && facts.gpus == 0)
    return fail(Code::usage, fmt::format("{}: this host has no GPU that may be used", said),
                "--nproc-per-node cpu is one rank a core; or write the number");
  const std::uint32_t count = by_gpu ? facts.gpus : std::max<std::uint32_t>(facts.cores, 1);
  settings.replace(Option::ppn, std::to_string(count));
  notes.push_back(fmt::format("{}: {}, one a {}", said, counted(count, "rank"),
                              by_gpu ? "GPU" : "physical core that may be used"));
  return {};
}

}  // namespace trainrun::cli
