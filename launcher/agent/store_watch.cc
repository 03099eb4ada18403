#include "launcher/agent/store_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "launcher/agent/accelerate_program.h"
#include "launcher/agent/socket_owner.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"
#include "launcher/wire/env_pairs.h"

namespace trainrun::agent {
namespace {

// A script that is short has loaded PyTorch within seconds, and may be done before ten have passed.
constexpr Duration quick_pause = seconds(1), pause = seconds(10), long_pause = seconds(30);
constexpr Duration too_long = seconds(20);  // without a connection to any rank, for the ranks of a group
constexpr int quick_looks = 10, looks_of_minutes = 21;
constexpr int most_looks = 79;  // half an hour, after which PyTorch gives up by itself
constexpr std::size_t most_of_maps = 4u << 20, most_of_environment = 4u << 20, most_ports = 16;

struct Libraries {
  bool torch = false, ours = false;
};

Libraries libraries_of(const std::vector<pid_t>& processes) {
  Libraries out;
  for (const auto process : processes) {
    const auto maps = read_file(fmt::format("/proc/{}/maps", process), most_of_maps).value_or(std::string{});
    out.torch = out.torch || maps.find("/libtorch") != std::string::npos;
    out.ours = out.ours || maps.find("/libtrainrun_comm") != std::string::npos;
  }
  return out;
}

bool is_told_of_cpu(pid_t process) {
  const auto text =
      read_file(fmt::format("/proc/{}/environ", process), most_of_environment).value_or(std::string{});
  return text.find("ACCELERATE_USE_CPU=") != std::string::npos;
}

std::set<std::uint64_t> sockets_of_all(const std::vector<pid_t>& processes) {
  std::set<std::uint64_t> inodes;
  for (const auto process : processes) inodes.merge(sockets_of(std::to_string(process)));
  return inodes;
}

std::vector<pid_t> processes_of(pid_t leader, const ProcessTree& tree) {
  auto processes = tree.descendants(leader);
  processes.insert(processes.begin(), leader);
  return processes;
}

std::vector<std::uint16_t> some(const std::set<std::uint16_t>& ports) {
  std::vector<std::uint16_t> out(ports.begin(), ports.end());
  out.resize(std::min(out.size(), most_ports));
  return out;
}

}  // namespace

std::optional<Duration> next_look(int looks, bool all_met, bool torch_is_here) {
  if (all_met || looks >= (torch_is_here ? most_looks : looks_of_minutes)) return std::nullopt;
  if (looks < quick_looks) return quick_pause;
  return looks < looks_of_minutes ? pause : long_pause;
}

StoreWatch::StoreWatch(io::Loop& loop, io::FrameStream& link,
                       std::function<std::vector<Supervisor::Leader>()> ranks_here)
    : link_(link), ranks_here_(std::move(ranks_here)), timer_(loop) {}

void StoreWatch::ordered(const wire::Start& order) {
  const auto port = parse_unsigned<std::uint16_t>(wire::value_of(order.env, "MASTER_PORT"));
  const auto size = parse_unsigned<std::uint32_t>(wire::value_of(order.env, "WORLD_SIZE")).value_or(0);
  const bool alone = size == 1;
  const bool ours = wire::value_of(order.env, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (!port || *port == 0 || alone) return;
  if (std::exchange(generation_, order.generation) != order.generation) {
    for (auto* const some : {&expected_, &loaded_, &ours_, &met_, &hosts_, &unasking_}) some->clear();
    traces_ = host_is_known_ = own_meeting_ = false;
    idle_since_.reset();
    size_ = size;
    looks_ = 0;
    last_known_ = {};
    port_ = *port;
    own_store_ = ours;
  }
  expected_.insert(order.worker);
  if (leaves_cpu_unasked(order.argv, order.directory) && !has_accelerator()) unasking_.insert(order.worker);
  own_meeting_ = own_meeting_ || names_a_meeting(order.argv, order.directory);
  timer_.arm(io::Loop::now() + quick_pause, [this] { look(); });
}

// The rank, or one that it has started, as a script around the program would.
void StoreWatch::look_at(const Supervisor::Leader& rank, const ProcessTree& tree,
                         const std::vector<TcpSocket>& sockets, wire::StoreSeen& seen) {
  const auto worker = rank.worker;
  const auto processes = processes_of(rank.pid, tree);
  if (!ours_.contains(worker)) {
    // A script may load ours long after PyTorch.
    const auto [torch, ours] = libraries_of(processes);
    if (torch) loaded_.insert(worker);
    if (ours) ours_.insert(worker);
  }
  if (!loaded_.contains(worker)) return seen.away.push_back(worker);
  if (unasking_.contains(worker) && !is_told_of_cpu(rank.pid)) seen.unasked = true;
  const auto ports = ports_of(sockets, sockets_of_all(processes), port_);
  if (ports.hosts) hosts_.insert(worker);
  if (ports.meets) {
    met_.insert(worker);
    return;
  }
  if (ours_.contains(worker)) return seen.away.push_back(worker);
  seen.apart.push_back(worker);
  if (!ports.listens.empty() || !ports.reaches.empty())
    seen.others.push_back({worker, some(ports.listens), some(ports.reaches)});
}

// Ranks of NCCL connect later than in init_process_group, so of GPUs nothing follows.
void StoreWatch::look_at_host(const ProcessTree& tree, const std::vector<TcpSocket>& sockets,
                              wire::StoreSeen& seen) {
  const auto all = ranks_here_();
  const auto host =
      std::find_if(all.begin(), all.end(), [this](const auto& rank) { return hosts_.contains(rank.worker); });
  host_is_known_ = host == all.end() || has_accelerator();
  if (host_is_known_) return;
  const auto ports = ports_of(sockets, sockets_of_all(processes_of(host->pid, tree)), port_);
  host_is_known_ = !ports.listens.empty() || !ports.reaches.empty();
  if (host_is_known_ || ports.clients < size_) return idle_since_.reset();
  const auto now = io::Loop::now();
  if (!idle_since_) idle_since_ = now;
  const auto idle = now - *idle_since_;
  if (idle >= too_long)
    seen.idle_ms = static_cast<std::uint32_t>(std::chrono::duration_cast<milliseconds>(idle).count());
}

void StoreWatch::look() {
  const auto sockets = tcp_sockets_here();
  const ProcessTree tree;
  wire::StoreSeen seen{.generation = generation_, .port = port_, .own_meeting = own_meeting_};
  ++looks_;
  for (const auto& rank : ranks_here_()) {
    if (expected_.contains(rank.worker) && !met_.contains(rank.worker)) look_at(rank, tree, sockets, seen);
  }
  seen.met.assign(met_.begin(), met_.end());
  seen.hosts.assign(hosts_.begin(), hosts_.end());
  seen.traces = traces_ = traces_ || leaves_traces(sockets, port_);
  if (!hosts_.empty() && !host_is_known_ && !own_store_) look_at_host(tree, sockets, seen);
  const auto known = std::tuple(loaded_.size(), ours_.size(), met_.size(), seen.others.size(), traces_);
  // The launcher counts by tens of seconds, and need not hear each second that nothing is new.
  if (std::exchange(last_known_, known) != known || looks_ >= quick_looks) link_.send(seen);
  // Of a store of its own the launcher itself knows who has come, once somebody has.
  const bool settled =
      own_store_ ? !met_.empty() : met_.size() == expected_.size() && (hosts_.empty() || host_is_known_);
  if (const auto wait = next_look(looks_, settled, !loaded_.empty()))
    timer_.arm(io::Loop::now() + *wait, [this] { look(); });
}

void StoreWatch::ending() {
  if (loaded_.empty() || !met_.empty() || traces_) return;
  traces_ = leaves_traces(tcp_sockets_here(), port_);
  if (traces_) link_.send(wire::StoreSeen{.generation = generation_, .port = port_, .traces = true});
}

void StoreWatch::drop() { timer_.disarm(); }

}  // namespace trainrun::agent
