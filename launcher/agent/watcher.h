// The process above the agent: it does nothing but outlive it. When the agent dies, by whatever cause, the
// watcher ends every process of the job that is left on this host, removes the job's directory, and goes.
// An agent that shows no life for the host's time-out and 2 s (stopped, spinning, hanging in a call of a dead
// file server) has been given up by its launcher: it and its workers are killed, so that they do not go on.
//
// It is the agent's parent and a subreaper, so whatever loses its parent falls to it, also daemons with
// sessions and environments of their own (decision 0003).
#pragma once

#include <functional>
#include <string>

#include "launcher/base/time.h"

namespace trainrun::agent {

// What the agent leaves for its watcher to find; lives in memory that both share.
class Handover {
 public:
  Handover();
  void set_job_directory(const std::string& path);
  [[nodiscard]] std::string job_directory() const;
  void set_host_timeout(Duration timeout);  // 10 s until then
  [[nodiscard]] Duration host_timeout() const;
  void show_life();  // the agent's loop turns
  [[nodiscard]] Instant last_life() const;

 private:
  struct Page;
  Page* page_;
};

// By which the watcher is known among processes.
inline constexpr const char* watcher_name = "trainrun-watch";

// Forks: `agent` runs in the child, this call stays behind as watcher and gives the exit code of the process.
// `keep` are the only descriptors above 2 that the agent gets; the watcher keeps none, so that no peer waits
// for it.
int watch_over(const std::function<int(Handover&)>& agent, int keep_first, int keep_second);

}  // namespace trainrun::agent
