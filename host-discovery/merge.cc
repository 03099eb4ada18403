#include "host-discovery/merge.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "host-discovery/host_key.h"
#include "launcher/base/strings.h"

namespace trainrun::hosts {
namespace {

constexpr int most_slots = 65535;

tl::unexpected<Error> contradiction(const Host& first, const Host& again, std::string_view what) {
  auto names = quoted(first.name);
  if (again.name != first.name)
    names += fmt::format(" and {} are the same machine, which", quoted(again.name));
  return fail(
      Code::config, fmt::format("{} is named twice with different {}", names, what),
      "name a machine with one user, port and key; for several logins on one address, give each a Host "
      "entry of its own in ~/.ssh/config");
}

Result<void> add(Host& entry, const Host& again) {
  const auto join = [](auto& value, const auto& other, const auto& none) {
    if (value == none) value = other;
    return other == none || value == other;
  };
  if (!join(entry.user, again.user, std::string())) return contradiction(entry, again, "users");
  if (!join(entry.port, again.port, std::uint16_t{0})) return contradiction(entry, again, "ports");
  if (!join(entry.identity, again.identity, std::string())) {
    return contradiction(entry, again, "identities");
  }
  entry.slots += again.slots;
  entry.slots_given = entry.slots_given || again.slots_given;
  if (entry.slots > most_slots) {
    return fail(Code::config,
                fmt::format("{} has more than {} slots in all", quoted(entry.name), most_slots));
  }
  return {};
}

// By what mentions of one host are known.
std::string key_of(const Host& host, bool here, Mentions mentions) {
  const std::string this_machine;  // a key that no name has
  return !here || mentions == Mentions::of_one_name ? name_key(host.name) : this_machine;
}

}  // namespace

void count_repeats(std::vector<Host>& hosts, const IsThisMachine& is_this_machine, Mentions mentions) {
  std::vector<std::string> keys;
  std::unordered_map<std::string, int> times;
  for (const auto& host : hosts) {
    keys.push_back(key_of(host, is_this_machine && is_this_machine(host), mentions));
    ++times[keys.back()];
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].slots_given || times[keys[i]] == 1) continue;
    hosts[i].slots = 1;
    hosts[i].slots_given = true;
  }
}

Result<std::vector<Host>> merge_hosts(std::vector<Host> hosts, int default_slots,
                                      const IsThisMachine& is_this_machine, Mentions mentions) {
  std::vector<Host> merged;
  std::unordered_map<std::string, std::size_t> places;
  for (auto& host : hosts) {
    if (!host.slots_given) host.slots = default_slots;
    const bool here = is_this_machine && is_this_machine(host);
    if (here) host.user.clear();
    const auto [found, fresh] = places.try_emplace(key_of(host, here, mentions), merged.size());
    if (fresh) {
      merged.push_back(std::move(host));
    } else if (auto added = add(merged[found->second], host); !added) {
      return tl::unexpected(added.error());
    }
  }
  return merged;
}

bool mean_one_host(const Host& host, const Host& mention, const IsThisMachine& is_this_machine) {
  return name_key(host.name) == name_key(mention.name) ||
         (is_this_machine && is_this_machine(host) && is_this_machine(mention));
}

}  // namespace trainrun::hosts
