// Starting one process: the one place where system calls are subtle. To be called by one thread of a process,
// always the same: the child dies with that thread.
//
// The child runs in our memory until it has executed the program (as posix_spawn's does), so nothing is
// copied and its failure is simply written where we can read it. Everything it needs is prepared before.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/base/exit_status.h"
#include "launcher/base/fd.h"

namespace trainrun::io {

constexpr int spawn_fourth = 20;

struct SpawnRequest {
  std::string path;               // of the executable; see find_program
  std::vector<std::string> argv;  // with argv[0]
  std::vector<const char*> env;   // "NAME=VALUE" each; the words must outlive the call
  std::string directory;
  std::vector<std::uint32_t> cpus;                    // empty: as we are
  int stdin_fd = -1, stdout_fd = -1, stderr_fd = -1;  // become 0, 1, 2
  bool keep_hangup_ignored = false;                   // SIGHUP stays ignored in the child (nohup)
  // As signals_not_default() gives it; must outlive the call. Null: asked anew, a system call a signal.
  const std::vector<int>* not_default = nullptr;
  // Becomes spawn_fourth; -1: none. Not 3: scripts open the numbers of one digit for themselves, and would
  // write into it, or close it.
  int fourth_fd = -1;
  bool batch = false;  // under SCHED_BATCH, unless a policy other than the usual one is already ours
};

// The signals that this process handles or ignores. Who starts many children and changes no disposition
// between them asks once.
std::vector<int> signals_not_default();

// How a list of words goes into a request.
std::vector<const char*> as_words(const std::vector<std::string>& words);

struct Spawned {
  pid_t pid = -1;
  // When not started: where and why. `pid` is -1 then, and nothing is left to reap.
  SpawnStage stage = SpawnStage::none;
  int error = 0;
};

// The child leads a session and process group of its own, dies with us (PR_SET_PDEATHSIG), has default signal
// dispositions, an empty mask, no descriptor but 0, 1, 2 (and 3), and the limit on them that we were given.
Spawned spawn(const SpawnRequest& request);

struct Found {
  std::string path;
  int error = 0;  // ENOENT, EACCES, ENOEXEC...: as execvp would fail
};
// Looks `name` up in `search_path` (the worker's PATH) unless it has a slash; relative ones count from
// `directory`.
Found find_program(const std::string& name, const std::string& search_path, const std::string& directory);

}  // namespace trainrun::io
