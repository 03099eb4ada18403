// How an agent ends: asked to, or because it must.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "launcher/agent/agent.h"
#include "launcher/agent/process_stat.h"
#include "launcher/agent/process_tree.h"
#include "launcher/agent/spared.h"

namespace trainrun::agent {
namespace {

constexpr Duration goodbye = seconds(2);
constexpr std::size_t most_names = 8;

bool all_beyond_reach() {
  auto living = descendants(::getpid());
  std::erase_if(living, [](pid_t pid) {
    const auto stat = process_stat(pid);
    return !stat || !stat->lives();
  });
  return !living.empty() && beyond_reach(living).size() == living.size();
}

}  // namespace

void Agent::end_by_signal(int number) { give_up("got " + signal_name(number)); }

// The launcher hears why, and then nothing more: what we do to the ranks is not their own end.
void Agent::give_up(const std::string& why) {
  link_.send(wire::Note{"the agent " + why + " and ends its ranks"});
  link_.flush_and_close(milliseconds(200));
  lose_link();
}

void Agent::lose_link() {
  if (mode_ == Mode::lost) return;
  const bool ladder_runs = mode_ == Mode::stopping;
  mode_ = Mode::lost;
  exit_code_ = 1;
  if (!ladder_runs) return end_everything();
  ending_step();
}

void Agent::end_everything() {
  starts_.clear();
  silence_.disarm();
  leave_by_.disarm();
  sweeper_.drop();
  inspector_.drop();
  pmix_.drop();
  preloader_.drop();
  mpi_watch_.drop();
  store_watch_.drop();
  supervisor_.reap();
  if (no_children_left()) return leave();
  tell_to_end();
  ladder_.arm(io::Loop::now() + grace_, [this] {
    killed_ = true;
    signal_descendants(SIGKILL);
    // What even KILL does not end hangs in the kernel: the watcher tries again, but nobody waits for it here.
    ladder_.arm(io::Loop::now() + goodbye, [this] { leave(); });
    ending_step();
  });
  ending_step();
}

void Agent::tell_to_end() {
  const ProcessTree tree;
  auto left = tree.descendants(::getpid());
  // On their way out: no rank left them.
  std::erase_if(left, [this](pid_t pid) { return pmix_.is_helper(pid) || preloader_.is_of_zygote(pid); });
  const auto spare = spared(tree, left, [this](pid_t pid) {
    return supervisor_.was_asked_to_end(pid) || told_to_end_.contains(pid);
  });
  spares_some_ = !spare.empty();
  std::vector<pid_t> told, left_behind;
  const auto beyond = beyond_reach(left);
  for (const auto pid : left) {
    if (spare.contains(pid) || !told_to_end_.note(pid)) continue;
    told.push_back(pid);
    const bool can_be_ended = std::find(beyond.begin(), beyond.end(), pid) == beyond.end();
    if (can_be_ended && supervisor_.was_left_behind(pid)) left_behind.push_back(pid);
  }
  leftovers_ += left_behind.size();
  leftover_names_.merge(names_of(left_behind, most_names));
  for (const auto pid : told) {
    ::kill(pid, SIGTERM);
    ::kill(pid, SIGCONT);  // a stopped process would not hear it
  }
}

void Agent::ending_step() {
  if (mode_ == Mode::serving) return;
  if (killed_) signal_descendants(SIGKILL);  // one may have forked between the look and the kill
  if (!killed_ && spares_some_) tell_to_end();
  if (no_children_left() || (killed_ && all_beyond_reach())) leave();
}

// Nobody's end is worth waiting for. The user must know of them: they are left.
void Agent::tell_beyond_reach(const std::vector<WorkerId>& workers) {
  for (const auto pid : beyond_reach(supervisor_.processes_of(workers))) {
    if (!told_beyond_reach_.note(pid)) continue;
    const auto names = names_of({pid}, 1);
    link_.send(wire::Note{"process " + std::to_string(pid) +
                          (names.empty() ? "" : " (" + *names.begin() + ")") +
                          " could not be ended: " + errno_text(EPERM) + "; it has become another user's"});
  }
}

void Agent::leave() {
  if (std::exchange(left_, true)) return;
  ladder_.disarm();
  tell_beyond_reach({});
  handover_.show_life();  // the last: what follows does not come back to the loop
  remove_job_directory(handover_.job_directory());
  if (mode_ == Mode::stopping) {
    std::vector<std::string> names(leftover_names_.begin(), leftover_names_.end());
    names.resize(std::min(names.size(), most_names));
    link_.send(wire::Stopped{static_cast<std::uint32_t>(leftovers_), killed_, std::move(names)});
    link_.flush_and_close(goodbye);
  }
  loop_.stop();
}

}  // namespace trainrun::agent
