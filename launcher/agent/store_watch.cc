#include "launcher/agent/store_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "launcher/agent/process_tree.h"
#include "launcher/agent/socket_owner.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"
#include "launcher/wire/env_pairs.h"

namespace trainrun::agent {
namespace {

constexpr Duration pause = seconds(10), long_pause = seconds(30);
constexpr int short_pauses = 12, most_looks = 70;  // half an hour, after which PyTorch gives up by itself
constexpr std::size_t most_of_table = 16u << 20, most_of_maps = 4u << 20;

bool has_torch(pid_t process) {
  const auto maps = read_file(fmt::format("/proc/{}/maps", process), most_of_maps).value_or(std::string{});
  return maps.find("/libtorch") != std::string::npos;
}

// It, or one that it has started, as a script around the program would.
bool any_of(const ProcessTree& tree, pid_t leader, const std::function<bool(pid_t)>& test) {
  if (test(leader)) return true;
  const auto others = tree.descendants(leader);
  return std::any_of(others.begin(), others.end(), test);
}

}  // namespace

std::set<std::uint64_t> sockets_to(std::string_view table, std::uint16_t port) {
  constexpr std::string_view established = "01", listening = "0A";
  const auto suffix = fmt::format(":{:04X}", port);
  std::set<std::uint64_t> found;
  for (const auto line : split(table, '\n')) {
    std::vector<std::string_view> words;
    for (const auto word : split(line, ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.size() < 10) continue;
    const bool to_it = words[3] == established && words[2].ends_with(suffix);
    const bool it = words[3] == listening && words[1].ends_with(suffix);
    if (!to_it && !it) continue;
    if (const auto inode = parse_unsigned<std::uint64_t>(words[9]); inode && *inode != 0)
      found.insert(*inode);
  }
  return found;
}

bool looks_again(int looks, bool all_met, bool torch_is_here) {
  return !all_met && looks < (torch_is_here ? most_looks : short_pauses);
}

StoreWatch::StoreWatch(io::Loop& loop, io::FrameStream& link,
                       std::function<std::vector<Supervisor::Leader>()> ranks_here)
    : link_(link), ranks_here_(std::move(ranks_here)), timer_(loop) {}

void StoreWatch::ordered(const wire::Start& order) {
  const auto port = parse_unsigned<std::uint16_t>(wire::value_of(order.env, "MASTER_PORT"));
  const bool alone = wire::value_of(order.env, "WORLD_SIZE") == "1";
  const bool ours = wire::value_of(order.env, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (!port || *port == 0 || alone || ours) return;
  if (std::exchange(generation_, order.generation) != order.generation) {
    expected_.clear();
    met_.clear();
    looks_ = 0;
    port_ = *port;
  }
  expected_.insert(order.worker);
  look_later();
}

void StoreWatch::look_later() {
  timer_.arm(io::Loop::now() + (looks_ < short_pauses ? pause : long_pause), [this] { look(); });
}

void StoreWatch::look() {
  auto sockets = sockets_to(read_file("/proc/net/tcp", most_of_table).value_or(std::string{}), port_);
  sockets.merge(sockets_to(read_file("/proc/net/tcp6", most_of_table).value_or(std::string{}), port_));
  const ProcessTree tree;
  wire::StoreSeen seen{generation_, {}, {}, {}};
  ++looks_;
  for (const auto& [worker, pid] : ranks_here_()) {
    if (!expected_.contains(worker)) continue;
    if (met_.contains(worker)) continue;
    if (!any_of(tree, pid, has_torch)) {
      seen.away.push_back(worker);
    } else if (any_of(tree, pid, [&](pid_t one) { return has_socket(std::to_string(one), sockets); })) {
      met_.insert(worker);
    } else {
      seen.apart.push_back(worker);
    }
  }
  seen.met.assign(met_.begin(), met_.end());
  link_.send(seen);
  const bool torch_is_here = !seen.met.empty() || !seen.apart.empty();
  if (looks_again(looks_, seen.away.empty() && seen.apart.empty(), torch_is_here)) look_later();
}

void StoreWatch::drop() { timer_.disarm(); }

}  // namespace trainrun::agent
