#include "launcher/agent/sweeper.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "launcher/agent/process_stat.h"
#include "launcher/agent/process_tree.h"
#include "launcher/agent/spared.h"

namespace trainrun::agent {
namespace {

// What lives on for so long after KILL hangs in the kernel; nobody should wait for it.
constexpr Duration dying_time = seconds(2);
constexpr int most_passes = 100;

}  // namespace

struct Sweeper::Sweep {
  Sweep(io::Loop& loop, wire::Sweep given) : order(std::move(given)), ladder(loop) {}
  wire::Sweep order;
  bool everything = false;  // no worker lived when it began, and none was started since
  bool killing = false;
  std::map<pid_t, std::uint64_t> reached;  // with the time of their start: a pid alone may come again
  wire::Swept answer;
  io::Timer ladder;
};

Sweeper::Sweeper(io::Loop& loop, Supervisor& supervisor, std::function<bool(pid_t)> is_tool,
                 std::function<void(const wire::Sweep&, const wire::Swept&)> swept)
    : loop_(loop), supervisor_(supervisor), is_tool_(std::move(is_tool)), swept_(std::move(swept)) {}
Sweeper::~Sweeper() = default;

void Sweeper::begin(const wire::Sweep& order, Duration grace) {
  auto& sweep = sweeps_.emplace_back(loop_, order);
  sweep.answer.sequence = order.sequence;
  sweep.everything = supervisor_.live_leaders().empty();
  sweep.killing = order.now;
  if (advance(sweep)) return end(sweep, 0);
  if (order.now) return kill(sweep);
  sweep.ladder.arm(io::Loop::now() + grace, [this, &sweep] { kill(sweep); });
}

void Sweeper::kill(Sweep& sweep) {
  sweep.killing = true;
  if (advance(sweep)) return end(sweep, 0);
  sweep.ladder.arm(io::Loop::now() + dying_time, [this, &sweep] { end(sweep, look(sweep).size()); });
}

void Sweeper::step() {
  for (auto it = sweeps_.begin(); it != sweeps_.end();) {
    auto& sweep = *it++;  // end() takes it off the list
    if (advance(sweep)) end(sweep, 0);
  }
}

void Sweeper::before_start() {
  step();  // also notes what is there now, so that it stays known
  for (auto& sweep : sweeps_) sweep.everything = false;
}

void Sweeper::drop() { sweeps_.clear(); }

void Sweeper::end(Sweep& sweep, std::size_t stuck) {
  const auto order = std::move(sweep.order);
  auto answer = sweep.answer;
  answer.stuck = static_cast<std::uint32_t>(stuck);
  sweeps_.remove_if([&sweep](const Sweep& one) { return &one == &sweep; });
  swept_(order, answer);
}

bool Sweeper::meant(const Sweep& sweep, pid_t child) const {
  if (sweep.everything) return true;
  const auto stat = process_stat(child);
  if (!stat) return false;
  if (const auto it = sweep.reached.find(child); it != sweep.reached.end() && it->second == stat->started)
    return true;
  const auto owner = supervisor_.owner_of(child);
  if (!owner || supervisor_.lives(*owner)) return false;
  const auto& named = sweep.order.workers;
  return named.empty() || std::find(named.begin(), named.end(), *owner) != named.end();
}

std::map<pid_t, std::uint64_t> Sweeper::look(const Sweep& sweep) const {
  std::map<pid_t, std::uint64_t> found;
  // Twice before it is believed that nothing is left: where /proc has to be searched, a process whose parent
  // ends during the search may be missed.
  for (int searches = 0; found.empty() && searches < 2 && !no_children_left(); ++searches) {
    const ProcessTree tree;
    const auto add = [&found](pid_t pid) {
      if (const auto stat = process_stat(pid); stat && stat->lives()) found.emplace(pid, stat->started);
    };
    for (const auto child : tree.children(::getpid())) {
      if (is_tool_(child) || !meant(sweep, child)) continue;
      add(child);
      for (const auto pid : tree.descendants(child)) add(pid);
    }
  }
  return found;
}

// True when nothing is left. Otherwise all that is left was told to end, and each end of a child of ours is a
// reason to look again: below us a process can lose its parent to us alone.
bool Sweeper::advance(Sweep& sweep) {
  for (int pass = 0; pass < most_passes; ++pass) {
    const auto left = look(sweep);
    if (left.empty()) return true;
    std::vector<pid_t> pids;
    for (const auto& [pid, started] : left) pids.push_back(pid);
    const auto spare = sweep.killing ? std::set<pid_t>{} : spared(ProcessTree(), pids, [this](pid_t pid) {
      return supervisor_.was_asked_to_end(pid);
    });
    bool news = false;
    for (const auto& [pid, started] : left) {
      if (spare.contains(pid)) continue;
      const auto [it, added] = sweep.reached.try_emplace(pid, started);
      const bool is_new = added || std::exchange(it->second, started) != started;
      if (is_new && supervisor_.was_left_behind(pid)) ++sweep.answer.leftovers;
      news |= is_new;
      if (sweep.killing) {
        ::kill(pid, SIGKILL);
        sweep.answer.killed = true;
      } else if (is_new) {
        ::kill(pid, SIGTERM);
        ::kill(pid, SIGCONT);  // a stopped process would not hear it
      }
    }
    if (!news) break;
  }
  return false;
}

}  // namespace trainrun::agent
