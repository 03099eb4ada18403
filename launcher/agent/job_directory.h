// The job's private directory on one host: the key for its workers, and what they leave to be read there
// (torch's error files). In memory where that is possible: the key reaches no disk, and no journal is waited
// for.
#pragma once

#include <string>
#include <vector>

#include "launcher/agent/watcher.h"

namespace trainrun::agent {

class JobDirectory {
 public:
  explicit JobDirectory(Handover& handover) : handover_(handover) {}
  // Makes `BASE/trainrun.JOB.XXXXXX` (0700) with `key` in it (0600) in the first of `bases` where that works.
  // 0, or the errno of the last try; path() is then what was tried.
  int make(const std::vector<std::string>& bases, const std::string& job_id, const std::string& key);
  // Before ranks that share memory by files with names, as those of Open MPI do, and may be killed over it.
  void add_memory();
  // Where: the directory itself if it is in memory, else one of the same name in /dev/shm. Empty: nowhere.
  [[nodiscard]] const std::string& memory() const { return memory_; }
  // Puts back what was taken away meanwhile: a login manager may remove a user's files in memory when their
  // last login ends (logind's RemoveIPC), and /tmp is swept of old files. Never into a directory that others
  // can enter. 0 or an errno.
  [[nodiscard]] int restore() const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  [[nodiscard]] int write_key() const;

  Handover& handover_;  // the watcher removes what we leave
  std::string path_, key_, memory_;
};

// With what its ranks shared.
void remove_job_directory(const std::string& path);

// Where to make it, best first: the job's TMPDIR, else our login's; memory; /tmp. Only absolute ones count.
std::vector<std::string> places_for_job_directory(const std::string& jobs_tmpdir,
                                                  const std::string& own_tmpdir);

// Of these, where other jobs' are likely to be, when ours was made at `made`: all but /tmp, which may have
// thousands of names, if there was a better place.
std::vector<std::string> places_of_other_jobs(std::vector<std::string> places, const std::string& made);

}  // namespace trainrun::agent
