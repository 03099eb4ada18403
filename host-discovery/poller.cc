#include "host-discovery/poller.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "host-discovery/host_key.h"

namespace trainrun::hosts {
namespace {

constexpr std::size_t most_failures = 5;  // a script's last words may be others at each look

std::string count(std::size_t hosts) {
  return hosts == 0 ? "no host" : hosts == 1 ? "1 host" : fmt::format("{} hosts", hosts);
}

}  // namespace

Poller::Told Poller::answer(const Listing& listing, bool witness) {
  std::unordered_map<std::string, const Host*> listed;
  for (const auto& host : listing.hosts) listed.try_emplace(host_key(host), &host);

  settled_ = true;
  std::vector<Host> hosts;
  std::vector<std::optional<int>> doubts;
  for (std::size_t i = 0; i < hosts_.hosts.size(); ++i) {
    const auto& known = hosts_.hosts[i];
    auto doubt = doubts_[i];
    if (listing.removes(known)) continue;
    auto host = known;
    int seen = 0;
    if (const auto found = listed.find(host_key(known)); found != listed.end()) {
      host = *found->second;
      host.name = known.name;  // as it was written first
      seen = host.slots;
      listed.erase(found);
    }
    settled_ = settled_ && seen >= known.slots;
    if (seen >= known.slots) {
      doubt.reset();
    } else if (witness) {
      host.slots = doubt ? std::max(*doubt, seen) : known.slots;
      doubt = seen < host.slots ? std::optional(seen) : std::nullopt;
    } else {
      host.slots = known.slots;
      if (doubt) doubt = std::max(*doubt, seen);
    }
    if (host.slots == 0) continue;
    hosts.push_back(std::move(host));
    doubts.push_back(doubt);
  }
  for (const auto& host : listing.hosts) {
    const auto found = listed.find(host_key(host));
    if (found == listed.end() || found->second != &host) continue;
    hosts.push_back(host);
    doubts.emplace_back();
  }

  Told told;
  doubts_ = std::move(doubts);
  const bool first = !std::exchange(answered_, true);
  if (first || hosts != hosts_.hosts) {
    hosts_.hosts = std::move(hosts);
    ++hosts_.revision;
    told.hosts = hosts_;
  }
  if (!std::exchange(failures_, {}).empty())
    told.say.push_back(
        fmt::format("host discovery answers{}: {}", first ? "" : " again", count(listing.hosts.size())));
  return told;
}

Poller::Told Poller::failure(const std::string& why) {
  for (auto& doubt : doubts_) doubt.reset();
  settled_ = false;
  Told told;
  const bool known = std::find(failures_.begin(), failures_.end(), why) != failures_.end();
  if (known || failures_.size() >= most_failures) return told;
  failures_.push_back(why);
  const bool last = failures_.size() == most_failures;
  told.say.push_back(
      fmt::format("host discovery: {}; {}{}", why,
                  answered_ ? fmt::format("the last good answer stays ({})", count(hosts_.hosts.size()))
                            : std::string("there was no good answer yet, and it is asked again"),
                  last ? "; no other failure is told before it answers" : ""));
  return told;
}

}  // namespace trainrun::hosts
