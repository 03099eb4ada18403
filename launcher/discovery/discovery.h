// Where an elastic job's hosts come from while it runs: asks a script, a file, a DNS name or Slurm again and
// again, and tells what host-discovery/poller makes of the answers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host-discovery/host.h"
#include "host-discovery/this_machine.h"
#include "launcher/core/job_spec.h"
#include "launcher/io/loop.h"

namespace trainrun {

class Discovery {
 public:
  struct Handlers {
    std::function<void(const HostSet&)> hosts;          // another set to work with from now on
    std::function<void(const std::string&)> say;        // one line for the user
    std::function<void(const std::string&)> problem{};  // of each look: why it failed, empty when it did not
  };
  // What the script is told, as TRAINRUN_JOB_ID, TRAINRUN_NP, TRAINRUN_MIN_NP, TRAINRUN_MAX_NP.
  struct Context {
    std::string job_id{};
    int np = 0, min_np = 0, max_np = 0;
    hosts::IsThisMachine is_this_machine{};  // all that is, is one host; may be empty
    std::string shown_source{};              // the source as people may see it
  };

  // `environment` is the launcher's, NAME=VALUE each. Handlers are called from the loop, never from within a
  // call of ours, and may call anything here, the destructor too.
  Discovery(io::Loop& loop, const DiscoverySpec& spec, Context context, std::vector<std::string> environment,
            Handlers handlers);
  ~Discovery();  // as stop()
  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;

  // Asks now, and again spec.interval after each answer; a file also whenever it changes.
  void start();
  // Something happened (a host was lost): asks without waiting, once more after the run that goes on now.
  void ask_now();
  // TRAINRUN_CURRENT_HOSTS and TRAINRUN_FAILED_HOSTS of the next runs, joined by commas. What is longer than
  // 64 KiB is cut after a whole name.
  void set_hosts(std::vector<std::string> current, std::vector<std::string> failed);
  // Ends it, with every process of a run that goes on; blocks for at most a second. Nothing is told after it.
  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trainrun
