#include "launcher/discovery/question.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "host-discovery/host_grammar.h"
#include "host-discovery/slurm.h"
#include "launcher/base/strings.h"

namespace trainrun {
namespace {

using hosts::IsThisMachine;

Result<hosts::Listing> tidied(std::vector<Host> hosts, int default_slots,
                              const IsThisMachine& is_this_machine) {
  hosts::Listing listing{std::move(hosts)};
  if (auto done = listing.tidy(default_slots, is_this_machine); !done) return tl::unexpected(done.error());
  return listing;
}

Question script(const DiscoverySpec& spec, const IsThisMachine& is_this_machine, const std::string& shown) {
  return {.asked = "the script " + quoted(shown),
          .command = spec.source,
          .read = [slots = spec.default_slots, is_this_machine](std::string_view output) {
            return hosts::parse_script(output, slots, is_this_machine);
          }};
}

Question file(const DiscoverySpec& spec, const IsThisMachine& is_this_machine) {
  auto question = script(spec, is_this_machine, {});
  question.asked = "cat " + quoted(spec.source);
  question.command = "exec cat -- \"$1\"";
  // "-" would be cat's word for its stdin.
  question.file = spec.source.find('/') == std::string::npos ? "./" + spec.source : spec.source;
  question.arguments = {question.file};
  return question;
}

Result<Question> dns(const DiscoverySpec& spec, const IsThisMachine& is_this_machine) {
  auto item = hosts::parse_host_item(spec.source);
  if (!item) return tl::unexpected(item.error());
  if (item->size() != 1) {
    return fail(Code::config, quoted(spec.source) + ": ranges have no place in a DNS name",
                "write NAME or NAME:SLOTS");
  }
  return Question{.asked = "getent ahosts " + item->front().name,
                  .command = "exec getent ahosts \"$1\"",
                  .arguments = {item->front().name},
                  .advice = "does the name have an address now?",
                  .read = [model = item->front(), slots = spec.default_slots,
                           is_this_machine](std::string_view output) -> Result<hosts::Listing> {
                    auto addresses = read_addresses(output);
                    if (!addresses) return tl::unexpected(addresses.error());
                    std::vector<Host> hosts(addresses->size(), model);
                    for (std::size_t i = 0; i < hosts.size(); ++i) hosts[i].name = std::move((*addresses)[i]);
                    return tidied(std::move(hosts), slots, is_this_machine);
                  }};
}

Result<Question> slurm(const DiscoverySpec& spec, const std::vector<std::string>& environment,
                       const IsThisMachine& is_this_machine) {
  const auto lookup = [environment](std::string_view name) -> std::optional<std::string> {
    for (const auto& each : environment) {
      if (each.size() > name.size() && each[name.size()] == '=' && each.starts_with(name))
        return each.substr(name.size() + 1);
    }
    return std::nullopt;
  };
  auto job = lookup("SLURM_JOB_ID");
  if (!job) job = lookup("SLURM_JOBID");
  if (!job) {
    return fail(Code::config, "host discovery by Slurm, but SLURM_JOB_ID is not set",
                "start trainrun inside a Slurm job, or name another source of hosts");
  }
  if (!parse_unsigned<std::uint32_t>(*job)) {
    return fail(Code::config, fmt::format("SLURM_JOB_ID is {}, where a number was expected", quoted(*job)));
  }
  return Question{.asked = "squeue -j " + *job,
                  .command = "exec squeue -h -j \"$1\" -o %N",
                  .arguments = {*job},
                  .read = [lookup, spec, is_this_machine](std::string_view output) -> Result<hosts::Listing> {
                    auto hosts = hosts::live_slurm_hosts(output, lookup);
                    if (!hosts) return tl::unexpected(hosts.error());
                    if (spec.default_slots_given) {
                      for (auto& host : *hosts) host.slots_given = false;
                    }
                    return tidied(std::move(*hosts), spec.default_slots, is_this_machine);
                  }};
}

}  // namespace

Result<std::vector<std::string>> read_addresses(std::string_view output) {
  std::vector<std::string> v4, v6;
  for (const auto line : split(output, '\n')) {
    const auto address = trim(line.substr(0, line.find(' ')));
    if (address.empty()) continue;
    if (hosts::is_ipv4(address)) {
      v4.emplace_back(address);
    } else if (hosts::is_ipv6(address)) {
      v6.emplace_back(address);
    } else {
      return fail(Code::config, quoted(line) + " does not begin with an address");
    }
  }
  auto& addresses = v4.empty() ? v6 : v4;
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return std::move(addresses);
}

Result<Question> make_question(const DiscoverySpec& spec, const std::vector<std::string>& environment,
                               hosts::IsThisMachine is_this_machine, const std::string& shown) {
  switch (spec.kind) {
    case DiscoveryKind::script:
      return script(spec, is_this_machine, shown);
    case DiscoveryKind::file:
      return file(spec, is_this_machine);
    case DiscoveryKind::dns:
      return dns(spec, is_this_machine);
    case DiscoveryKind::slurm:
      return slurm(spec, environment, is_this_machine);
    case DiscoveryKind::none:
      break;
  }
  return fail(Code::internal, "no host discovery was asked for");
}

}  // namespace trainrun
