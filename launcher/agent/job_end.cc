// How what a job has on this host is ended.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "launcher/agent/job.h"
#include "launcher/agent/process_stat.h"
#include "launcher/agent/process_tree.h"
#include "launcher/agent/spared.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

constexpr Duration after_kill = seconds(2), after_rank = milliseconds(200);
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

void Job::end(std::function<void()> ended) {
  ended_ = std::move(ended);
  starts_.clear();
  second_look_.disarm();
  sweeper_.drop();
  note_tools();
  inspector_.drop();
  pmix_.drop();
  preloader_.drop();
  mpi_watch_.drop();
  store_watch_.drop();
  supervisor_.reap();
  if (no_children_left()) return leave();
  // What ends with its rank by itself, as the helpers of Python's multiprocessing do, was not left behind.
  if (supervisor_.live_leaders().empty())
    return ladder_.arm(io::Loop::now() + after_rank, [this] { end_what_is_left(); });
  end_what_is_left();
}

void Job::end_what_is_left() {
  tell_to_end();
  ladder_.arm(io::Loop::now() + grace_, [this] {
    killed_ = true;
    signal_descendants(SIGKILL);
    // What even KILL does not end hangs in the kernel: the watcher tries again, but nobody waits for it here.
    ladder_.arm(io::Loop::now() + after_kill, [this] { leave(); });
    ending_step();
  });
  ending_step();
}

// Who is killed with them may take a moment to go, and no rank left it.
void Job::note_tools() {
  const ProcessTree tree;
  for (const auto tool : inspector_.tools()) {
    tools_.note(tool);
    for (const auto below : tree.descendants(tool)) tools_.note(below);
  }
}

void Job::tell_to_end() {
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
    if (can_be_ended && !tools_.contains(pid) && supervisor_.was_left_behind(pid)) left_behind.push_back(pid);
  }
  leftovers_ += left_behind.size();
  leftover_names_.merge(names_of(left_behind, most_names));
  for (const auto pid : told) {
    ::kill(pid, SIGTERM);
    ::kill(pid, SIGCONT);  // a stopped process would not hear it
  }
}

void Job::ending_step() {
  if (!is_ending()) return;
  if (killed_) signal_descendants(SIGKILL);  // one may have forked between the look and the kill
  if (!killed_ && spares_some_) tell_to_end();
  if (no_children_left() || (killed_ && all_beyond_reach())) leave();
}

void Job::tell_beyond_reach(const std::vector<WorkerId>& workers) {
  for (const auto pid : beyond_reach(supervisor_.processes_of(workers))) {
    if (!told_beyond_reach_.note(pid)) continue;
    const auto names = names_of({pid}, 1);
    link_.send(wire::Note{"process " + std::to_string(pid) +
                          (names.empty() ? "" : " (" + *names.begin() + ")") +
                          " could not be ended: " + errno_text(EPERM) + "; it has become another user's"});
  }
}

void Job::leave() {
  if (std::exchange(left_, true)) return;
  ladder_.disarm();
  tell_beyond_reach({});
  handover_.show_life();  // the last: what follows does not come back to the loop
  remove_job_directory(handover_.job_directory());
  ended_();
}

wire::Stopped Job::what_was_left() const {
  std::vector<std::string> names(leftover_names_.begin(), leftover_names_.end());
  names.resize(std::min(names.size(), most_names));
  return {static_cast<std::uint32_t>(leftovers_), killed_, std::move(names)};
}

}  // namespace trainrun::agent
