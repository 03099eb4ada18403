#include "host-discovery/diff.h"

#include <string>
#include <unordered_map>

#include "host-discovery/host_key.h"

namespace trainrun::hosts {
namespace {

std::unordered_map<std::string, const Host*> by_key(const HostSet& set) {
  std::unordered_map<std::string, const Host*> out;
  for (const auto& host : set.hosts) out.try_emplace(host_key(host), &host);
  return out;
}

}  // namespace

HostChanges diff(const HostSet& before, const HostSet& after) {
  const auto old_hosts = by_key(before), new_hosts = by_key(after);
  HostChanges changes;
  for (const auto& host : before.hosts) {
    if (new_hosts.count(host_key(host)) == 0) changes.removed.push_back(host);
  }
  for (const auto& host : after.hosts) {
    const auto found = old_hosts.find(host_key(host));
    if (found == old_hosts.end()) {
      changes.added.push_back(host);
    } else if (found->second->slots != host.slots) {
      changes.resized.push_back({host, found->second->slots});
    }
  }
  return changes;
}

}  // namespace trainrun::hosts
