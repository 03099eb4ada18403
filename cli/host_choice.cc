#include "cli/host_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/allocation.h"
#include "cli/program.h"
#include "host-discovery/host_list.h"
#include "host-discovery/hostfile.h"
#include "host-discovery/merge.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::cli {

namespace {

Result<std::vector<Host>> listed(const Settings& settings) {
  std::vector<Host> all;
  for (const auto& setting : settings.all(Option::host)) {
    auto hosts = hosts::parse_host_list(setting.value, setting.origin);
    if (!hosts) return hosts;
    all.insert(all.end(), hosts->begin(), hosts->end());
  }
  return all;
}

// node1 is no misspelling of node3.
std::string without_digits(std::string name) {
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  return name;
}

// The hosts of `defined` that `wanted` names, in the order of `wanted`; a count in `wanted` lowers the slots,
// a user or port in it replaces the other.
Result<std::vector<Host>> filtered(const std::vector<Host>& defined, const std::vector<Host>& wanted,
                                   const std::string& filter, const std::string& source,
                                   const Inputs& inputs) {
  std::vector<Host> out;
  for (const auto& want : wanted) {
    const auto found = std::find_if(defined.begin(), defined.end(), [&](const Host& host) {
      return hosts::mean_one_host(host, want, inputs.is_this_machine);
    });
    if (found == defined.end()) {
      std::vector<std::string> names;
      for (const auto& host : defined) names.push_back(host.name);
      const auto near = nearest(want.name, names);
      const bool typo = near && without_digits(*near) != without_digits(want.name);
      return fail(
          Code::usage,
          fmt::format("{}: host {} is not among the hosts of {}", filter, quoted(want.name), source),
          typo ? fmt::format("did you mean {}?", *near) : fmt::format("they are {}", list_names(names)));
    }
    if (want.slots_given && want.slots > found->slots) {
      return fail(Code::usage, fmt::format("{} asks for {} on {}, and {} gives it {}", filter,
                                           counted(want.slots, "slot"), want.name, source, found->slots));
    }
    Host host = *found;
    if (want.slots_given) host.slots = want.slots;
    if (!want.user.empty()) host.user = want.user;
    if (want.port != 0) host.port = want.port;
    out.push_back(std::move(host));
  }
  return out;
}

// Other launchers have host:port where ours is host:slots, and a wrong guess would start thousands of ranks.
Result<void> no_ports(const std::vector<Host>& hosts, const Settings& settings) {
  constexpr int looks_like_a_port = 1024;
  if (settings.get(Option::np) != nullptr) return {};
  for (const auto& host : hosts) {
    if (!host.slots_given || host.slots < looks_like_a_port) continue;
    return fail(
        Code::usage,
        fmt::format("{} {}:{} asks for {} ranks on one host", settings.get(Option::host)->origin, host.name,
                    host.slots, host.slots),
        fmt::format("a port of ssh is written ssh://{}:{}; if so many ranks are meant, say it: -np {}",
                    host.name, host.slots, host.slots));
  }
  return {};
}

// A batch script for torchrun asks for one task a node, which is the launcher: how many ranks that starts
// there, the flag says.
void forget_single_slots(std::vector<Host>& hosts) {
  const bool single = std::all_of(hosts.begin(), hosts.end(),
                                  [](const Host& host) { return host.slots_given && host.slots == 1; });
  for (auto& host : hosts) host.slots_given = host.slots_given && !single;
}

}  // namespace

// A public key alone will do: its other half may be in an ssh-agent. With a %, ssh makes the name of the
// file.
Result<void> key_is_there(const Settings& settings, const std::string& path, const Inputs& inputs) {
  const Setting* setting = settings.get(Option::ssh_identity_file);
  if (setting == nullptr || path.find('%') != std::string::npos || inputs.is_file(path) ||
      inputs.is_file(path + ".pub"))
    return {};
  return fail(Code::config, fmt::format("{}: there is no key {}", setting->origin, quoted(path)),
              "ls ~/.ssh shows the keys that there are");
}

Result<HostChoice> choose_hosts(const Settings& settings, const Inputs& inputs) {
  const auto& here = inputs.is_this_machine;
  const int default_slots = settings.number(Option::slots_per_host, settings.number(Option::ppn, 1));
  const Setting* file = settings.get(Option::hostfile);
  const Setting* system = settings.get(Option::hosts_from);
  const bool forced = system != nullptr && system->value != "none";
  if (file != nullptr && forced) {
    return fail(Code::usage,
                fmt::format("{} and {} {} both say which hosts", file->origin, system->origin, system->value),
                "keep one of them");
  }

  auto wanted = listed(settings);
  if (!wanted) return tl::unexpected(wanted.error());
  if (auto ok = no_ports(*wanted, settings); !ok) return tl::unexpected(ok.error());
  HostChoice choice;
  Result<std::vector<Host>> hosts = std::vector<Host>{};
  if (file != nullptr) {
    choice.origin = printable(file->value);
    auto content = inputs.read_file(absolute_path(file->value, inputs));
    if (!content)
      return fail(Code::config, fmt::format("{}: {}", file->origin, content.error().message),
                  file->value == "-" ? "stdin is read as --hostfile /dev/stdin" : "");
    hosts = hosts::parse_hostfile(*content, choice.origin);
  } else if (forced || (wanted->empty() && system == nullptr)) {
    auto given = read_allocation(forced ? system->value : "", inputs, here);
    if (!given && forced)
      given.error().message = fmt::format("{} {}: {}", system->origin, system->value, given.error().message);
    if (!given) return tl::unexpected(given.error());
    choice.origin = given->origin;
    choice.batch_system = given->system;
    hosts = std::move(given->hosts);
    if (settings.has(Option::slots_per_host) || settings.has(Option::ppn)) forget_single_slots(*hosts);
  } else if (!wanted->empty()) {
    choice.origin = settings.get(Option::host)->origin;
    hosts = *wanted;
  }
  if (hosts) {
    const bool counted =
        std::any_of(wanted->begin(), wanted->end(), [](const Host& host) { return host.slots_given; });
    if (file != nullptr && !counted) choice.slots_from = choice.origin;
    const bool filter = !wanted->empty() && (file != nullptr || forced);
    const auto mentions = settings.text(Option::compat, "") == "horovod" ? hosts::Mentions::of_one_name
                                                                         : hosts::Mentions::of_one_machine;
    if (file != nullptr && settings.has(Option::slots_per_host)) hosts::count_repeats(*hosts, here, mentions);
    if (!hosts->empty()) hosts = hosts::merge_hosts(std::move(*hosts), default_slots, here, mentions);
    if (hosts && filter) {
      auto chosen = hosts::merge_hosts(*wanted, 1, here, mentions);
      if (!chosen) return tl::unexpected(chosen.error());
      hosts = filtered(*hosts, *chosen, settings.get(Option::host)->origin, choice.origin, inputs);
    }
  }
  if (!hosts) return tl::unexpected(hosts.error());
  for (auto& host : *hosts) {
    if (!host.identity.empty()) host.identity = absolute_path(host.identity, inputs);
  }
  if (hosts->empty()) choice.origin = "default";
  choice.this_host_alone = std::all_of(hosts->begin(), hosts->end(), here);
  choice.hosts = std::move(*hosts);
  return choice;
}

}  // namespace trainrun::cli
