// The workers of one host: starts them, pumps their pipes, reaps them, signals them. It takes no decision.
#pragma once

#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/env_words.h"
#include "launcher/agent/out_of_memory.h"
#include "launcher/agent/output.h"
#include "launcher/agent/pmi_sockets.h"
#include "launcher/agent/pmix_helper.h"
#include "launcher/agent/process_tree.h"
#include "launcher/agent/stdin_relay.h"
#include "launcher/agent/worker_files.h"
#include "launcher/agent/worker_machine.h"
#include "launcher/io/frame_stream.h"
#include "launcher/io/loop.h"
#include "launcher/io/spawn.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

class Supervisor {
 public:
  struct Leader {
    WorkerId worker;
    pid_t pid = -1;
  };

  // What happens to workers goes out on `link`; it, `pmi` and `pmix` must outlive the supervisor.
  // `other_child` is told of every child that ended and is no worker, while it is still a zombie; true: it
  // has been reaped.
  // `is_kept`: no worker's, and lives on when all workers are ended.
  Supervisor(io::Loop& loop, io::FrameStream& link, PmiSockets& pmi, PmixHelper& pmix,
             std::function<bool(pid_t)> other_child, std::function<bool(pid_t)> is_kept);
  ~Supervisor();

  void open(const wire::OpenJob& order);
  void start(const wire::Start& order);
  // A worker that somebody else has started, a child of this process; `files` are those it was given.
  void adopt(const wire::Start& order, pid_t pid, WorkerFiles files);
  [[nodiscard]] bool keeps_hangup_ignored() const { return keep_hangup_ignored_; }
  // NAME=VALUE each: what the job gives every worker, with these over it, or what this worker is to have.
  [[nodiscard]] std::vector<std::string> environment_with(const wire::EnvPairs& over) const;
  [[nodiscard]] std::vector<std::string> environment_for(const wire::Start& order) const;
  void signal(const wire::Signal& order);
  void give_stdin(const wire::Stdin& data);
  void add_credit(std::uint64_t bytes) { credit_.add(bytes); }
  void look_at_memory() { out_of_memory_.look(io::Loop::now()); }  // every few seconds
  // What somebody else says for this worker, as if it had written it.
  void print(WorkerId worker, wire::Output stream, const std::string& text);
  // Reaps whatever ended: workers, and orphans of workers that fell to us as subreaper.
  void reap();
  [[nodiscard]] std::vector<Leader> live_leaders() const;
  [[nodiscard]] bool lives(WorkerId worker) const;  // its leader does, or is not reaped yet
  // Whose is this child of ours: a worker, or an orphan of one that fell to us. An orphan is known by its
  // mark (worker_mark), or, if that is gone, by the session that its worker led. Nothing: nobody can say.
  [[nodiscard]] std::optional<WorkerId> owner_of(pid_t child) const;
  // A request of ours to end (SIGTERM) has reached this process, which needs no second one: it may be saving.
  [[nodiscard]] bool was_asked_to_end(pid_t pid) const;
  // What outlives a worker was left behind by it, unless we asked the worker to end.
  [[nodiscard]] bool was_left_behind(pid_t pid) const;
  // Their leaders, and what descends from these or was left by them. None named: everybody's.
  [[nodiscard]] std::vector<pid_t> processes_of(const std::vector<WorkerId>& workers) const;
  // Drops these workers (none named: all) from memory, each as soon as it is finished; what lives stays.
  void forget(const std::vector<WorkerId>& workers);

 private:
  struct Worker;
  void ended(Worker& worker, int raw_status, std::uint64_t peak_rss_kib, std::string out_of_memory);
  void advance(Worker& worker, WorkerMachine::Event event);
  void finish_if_through(Worker& worker);
  void request(Worker& worker, const ProcessTree& tree, int number);
  bool reap_one();
  void after_orphans();
  const io::Found& find(const wire::Start& order);

  io::Loop& loop_;
  io::FrameStream& link_;
  PmiSockets& pmi_;
  PmixHelper& pmix_;
  std::function<bool(pid_t)> other_child_, is_kept_;
  CreditPool credit_;
  OutOfMemory out_of_memory_;
  Duration grace_ = seconds(10);
  wire::EnvPairs base_env_;
  EnvWords base_words_;  // written once for all workers
  struct {
    std::string name, path, directory;
    io::Found found{{}, ENOENT};
  } found_;  // the last program
  bool keep_hangup_ignored_ = false;
  std::vector<int> not_default_;  // the agent's dispositions stay as they are when it begins to serve
  std::map<WorkerId, std::unique_ptr<Worker>> workers_;
  std::map<int, WorkerId> by_pid_;
};

// The directory that a worker's program starts in must exist, and the program be executable: what can be
// known before.
std::vector<wire::Problem> problems_of(const wire::OpenJob& order);

}  // namespace trainrun::agent
