#include "launcher/core/addresses.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include <utility>
#include <vector>

#include "launcher/base/strings.h"

namespace trainrun::core {
namespace {

// Words of SSH_CONNECTION: client address, client port, server address, server port.
std::string connection_word(const wire::HostFacts& facts, std::size_t index) {
  const auto words = split(facts.ssh_connection, ' ');
  return words.size() == 4 ? std::string(words[index]) : std::string{};
}

// From where the first two hosts were reached over ssh: the first of them that is another host than one's own
// is reached from here.
std::vector<std::pair<HostIndex, std::string>> first_clients(const FactsByHost& facts) {
  std::vector<std::pair<HostIndex, std::string>> clients;
  for (auto it = facts.begin(); it != facts.end() && clients.size() < 2; ++it)
    if (auto client = connection_word(*it->second, 0); !client.empty())
      clients.emplace_back(it->first, std::move(client));
  return clients;
}

Result<std::string> address_among(HostIndex host, const FactsByHost& facts, const JobSpec& job,
                                  const std::vector<std::pair<HostIndex, std::string>>& clients) {
  const auto& own = *facts.at(host);
  if (!job.network_interface.empty()) {
    std::vector<std::string> known;  // one may have several addresses
    for (const auto& interface : own.interfaces) {
      if (interface.name == job.network_interface) return interface.address;
      if (std::find(known.begin(), known.end(), interface.name) == known.end())
        known.push_back(interface.name);
    }
    return fail(Code::config,
                fmt::format("{}: --network-interface {}: no such interface with an address there",
                            job.hosts.hosts[host.value].name, quoted(job.network_interface)),
                fmt::format("interfaces of that host: {}", fmt::join(known, ", ")));
  }
  if (facts.size() == 1 && !may_spread(job)) return std::string("127.0.0.1");
  if (auto server = connection_word(own, 2); !server.empty()) return server;
  for (const auto& [other, client] : clients)
    if (other != host) return client;
  for (const auto& interface : own.interfaces) {
    if (!interface.address.starts_with("127.") && interface.address != "::1") return interface.address;
  }
  return std::string("127.0.0.1");
}

}  // namespace

bool may_spread(const JobSpec& job) {
  if (!job.elastic.enabled()) return false;
  const auto& hosts = job.hosts.hosts;
  if (hosts.size() > 1 || job.elastic.discovery.kind != DiscoveryKind::none) return true;
  // There is room for what `trainrun ctl add` brings.
  return !hosts.empty() && job.elastic.max_np > hosts.front().slots;
}

Result<std::string> address_of(HostIndex host, const FactsByHost& facts, const JobSpec& job) {
  return address_among(host, facts, job, first_clients(facts));
}

std::map<HostIndex, std::string> addresses_of(const FactsByHost& facts, const JobSpec& job) {
  const auto clients = first_clients(facts);
  std::map<HostIndex, std::string> addresses;
  for (const auto& [host, own] : facts)
    if (auto address = address_among(host, facts, job, clients)) addresses.emplace(host, std::move(*address));
  return addresses;
}

}  // namespace trainrun::core
