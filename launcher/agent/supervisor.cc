#include "launcher/agent/supervisor.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "launcher/agent/addressees.h"
#include "launcher/agent/asked_to_end.h"
#include "launcher/agent/error_file.h"
#include "launcher/agent/host_facts.h"
#include "launcher/agent/process_stat.h"
#include "launcher/base/fault.h"
#include "launcher/io/spawn.h"
#include "launcher/wire/env_pairs.h"

namespace trainrun::agent {
namespace {

// How long a finished worker's pipes may be held open by something else before its output counts as complete.
constexpr Duration drain_time = seconds(1);

std::int64_t now_ns() { return io::Loop::now().time_since_epoch().count(); }

bool names(const std::vector<WorkerId>& workers, WorkerId id) {
  return std::find(workers.begin(), workers.end(), id) != workers.end();
}

// By which a worker's orphans are known; nothing replaces it.
wire::EnvPairs mark_of(WorkerId worker) { return {{"TRAINRUN_WORKER", std::to_string(worker.value)}}; }

}  // namespace

struct Supervisor::Worker {
  Worker(io::Loop& loop, WorkerId given) : id(given), drain(loop) {}
  WorkerId id;
  pid_t pid = -1;            // of the process while it is not reaped
  pid_t leader = -1;         // the same number, also later
  bool forgettable = false;  // the launcher will not speak of it any more
  SignalSet signalled;       // while it lived
  std::string error_file;    // where it may say why it ended
  WorkerMachine machine;
  AskedToEnd asked;
  bool was_asked = false;
  std::shared_ptr<OutputPump> out, err;
  std::shared_ptr<StdinRelay> in;
  io::Timer drain;
  bool drained = false;  // its time is over: what stood in the pipes then is all that is waited for
};

Supervisor::Supervisor(io::Loop& loop, io::FrameStream& link, PmiSockets& pmi, PmixHelper& pmix,
                       std::function<bool(pid_t)> other_child, std::function<bool(pid_t)> is_kept)
    : loop_(loop),
      link_(link),
      pmi_(pmi),
      pmix_(pmix),
      other_child_(std::move(other_child)),
      is_kept_(std::move(is_kept)) {
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  keep_hangup_ignored_ = hangup.sa_handler == SIG_IGN;
  not_default_ = io::signals_not_default();
}
Supervisor::~Supervisor() = default;

void Supervisor::open(const wire::OpenJob& order) {
  grace_ = milliseconds(order.grace_ms);
  base_env_ = order.env;
  for (auto& own : own_login()) {
    const bool given = std::any_of(base_env_.begin(), base_env_.end(),
                                   [&own](const auto& pair) { return pair.first == own.first; });
    if (!given) base_env_.push_back(std::move(own));
  }
  base_words_.write(base_env_);
  credit_.add(order.credit);
  // After the answer, which waits in the loop already, while the launcher works on it: no worker is started
  // before that.
  loop_.post([this] { out_of_memory_.remember(io::Loop::now()); });
}

std::vector<std::string> Supervisor::environment_with(const wire::EnvPairs& over) const {
  const EnvWords own(over);
  const auto words = base_words_.with(own);
  return {words.begin(), words.end()};
}

std::vector<std::string> Supervisor::environment_for(const wire::Start& order) const {
  const EnvWords own(order.env, mark_of(order.worker));
  const auto words = base_words_.with(own);
  return {words.begin(), words.end()};
}

// The ranks of a host run the same program nearly always, and PATH may be long.
const io::Found& Supervisor::find(const wire::Start& order) {
  const auto own = wire::value_of(order.env, "PATH");
  const auto path = own.empty() ? wire::value_of(base_env_, "PATH") : own;
  const std::string name = order.argv.empty() ? "" : order.argv.front();
  const bool again = found_.found.error == 0 && found_.name == name && found_.path == path &&
                     found_.directory == order.directory;
  if (!again || ::access(found_.found.path.c_str(), X_OK) != 0)
    found_ = {name, path, order.directory, io::find_program(name, path, order.directory)};
  return found_.found;
}

void Supervisor::start(const wire::Start& order) {
  if (workers_.contains(order.worker)) return;  // a number is never used again
  const auto refuse = [&](SpawnStage stage, int error) {
    link_.send(wire::NotStarted{order.worker, stage, error, now_ns()});
  };
  WorkerFiles files;
  if (const int error = open_worker_files(order, files); error != 0) return refuse(SpawnStage::files, error);
  const EnvWords own(order.env, mark_of(order.worker));
  const auto& program = find(order);
  if (program.error != 0) return refuse(SpawnStage::exec, program.error);

  io::SpawnRequest request{
      program.path,         order.argv,       base_words_.with(own),  order.directory,
      order.cpus,           files.stdin_fd(), files.out.second.get(), files.err.second.get(),
      keep_hangup_ignored_, &not_default_,    files.pmi.second.get(), order.batch};
  if (const auto error = fault::point("agent.spawn")) return refuse(SpawnStage::fork, *error);
  const auto spawned = io::spawn(request);
  if (spawned.pid < 0) return refuse(spawned.stage, spawned.error);

  adopt(order, spawned.pid, std::move(files));
}

void Supervisor::adopt(const wire::Start& order, pid_t pid, WorkerFiles files) {
  auto worker = std::make_unique<Worker>(loop_, order.worker);
  worker->pid = worker->leader = pid;
  worker->error_file = wire::value_of(order.env, "TORCHELASTIC_ERROR_FILE");
  worker->machine.step(WorkerMachine::Event::spawned);
  by_pid_[pid] = order.worker;
  link_.send(wire::Started{order.worker, static_cast<std::uint32_t>(pid), now_ns()});
  auto& ref = *workers_.emplace(order.worker, std::move(worker)).first->second;
  if (files.pmi.first) pmi_.begin(order, std::move(files.pmi.first));
  const auto pump = [this, &ref](Fd pipe, wire::Output stream) {
    return OutputPump::start(loop_, credit_, std::move(pipe),
                             {[this, &ref, stream](std::string_view bytes) {
                                link_.send(wire::OutputBytes{ref.id, stream, bytes});
                                finish_if_through(ref);
                              },
                              [this, &ref] { advance(ref, WorkerMachine::Event::pipe_ended); }});
  };
  ref.out = pump(std::move(files.out.first), wire::Output::out);
  ref.err = pump(std::move(files.err.first), wire::Output::err);
  if (files.stdin_write) {
    ref.in = StdinRelay::start(loop_, std::move(files.stdin_write),
                               [this, id = order.worker](std::uint32_t bytes) {
                                 link_.send(wire::StdinWanted{id, bytes});
                               });
  }
}

void Supervisor::advance(Worker& worker, WorkerMachine::Event event) {
  const bool finished = worker.machine.step(event);
  if (finished) {
    worker.drain.disarm();
    link_.send(wire::Finished{worker.id});
    const auto id = worker.id;
    if (worker.forgettable) workers_.erase(id);  // whoever called us holds what it still needs of it
  } else if (worker.machine.draining() && worker.drained) {
    finish_if_through(worker);
  } else if (worker.machine.draining() && !worker.drain.armed()) {
    // What still does as we asked is part of the worker, and prints to its pipes.
    const auto time = worker.asked.any_lives() ? grace_ : drain_time;
    worker.drain.arm(io::Loop::now() + time, [this, &worker] {
      worker.drained = true;
      worker.out->mark();
      worker.err->mark();
      finish_if_through(worker);
    });
  }
}

// What was written in time may wait for credit as long as it must. What is written later by something that
// the worker has left is not waited for: that may never end.
void Supervisor::finish_if_through(Worker& worker) {
  if (worker.drained && worker.out->marked_is_through() && worker.err->marked_is_through())
    advance(worker, WorkerMachine::Event::drain_deadline);
}

void Supervisor::reap() {
  while (reap_one()) {
  }
  after_orphans();
}

bool Supervisor::reap_one() {
  // Look before taking: a pid in our table must be taken with its usage, and its /proc entry read first.
  siginfo_t info{};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return false;
  const auto it = by_pid_.find(info.si_pid);
  std::string evidence;
  if (it != by_pid_.end() && info.si_code == CLD_KILLED && info.si_status == SIGKILL) {
    evidence = out_of_memory_.evidence(info.si_pid, io::Loop::now());
  } else if (it != by_pid_.end() && info.si_code == CLD_EXITED && tells_of_sigkill(info.si_status)) {
    evidence = out_of_memory_.evidence_within(info.si_pid, io::Loop::now());
  }
  // A tool of ours, or an orphan that fell to us.
  if (it == by_pid_.end() && other_child_(info.si_pid)) return true;
  int status = 0;
  struct rusage usage {};
  if (::wait4(info.si_pid, &status, WNOHANG, &usage) != info.si_pid) return false;
  if (it == by_pid_.end()) return true;
  auto& worker = *workers_.at(it->second);
  by_pid_.erase(it);
  ended(worker, status, static_cast<std::uint64_t>(usage.ru_maxrss), std::move(evidence));
  return true;
}

// They may have been the last of what was waited for after the end of a leader.
void Supervisor::after_orphans() {
  for (auto it = workers_.begin(); it != workers_.end();) {
    auto& worker = *it++->second;  // which may be forgotten here
    if (!worker.machine.draining() || worker.asked.empty() || worker.asked.any_lives()) continue;
    worker.drain.disarm();
    advance(worker, WorkerMachine::Event::spawned);  // changes nothing but arms the clock again
  }
}

void Supervisor::ended(Worker& worker, int raw_status, std::uint64_t peak_rss_kib, std::string evidence) {
  worker.pid = -1;
  if (worker.in) {
    link_.send(wire::StdinTaken{worker.id, worker.in->taken()});
    worker.in->close();
  }
  const bool by_pmi = pmi_.ended_in_mpi(worker.id), by_pmix = pmix_.ended_in_mpi(worker.id);
  const bool in_mpi = by_pmi || by_pmix;
  // What it printed last says why it ended, and comes first.
  for (const auto& pipe : {worker.out, worker.err}) pipe->read_now();
  if (raw_status != 0) {
    if (auto text = read_error_file(worker.error_file); !text.empty())
      link_.send(wire::ErrorFile{worker.id, std::move(text)});
  }
  link_.send(wire::Exited{worker.id, raw_status, now_ns(), peak_rss_kib, std::move(evidence), in_mpi,
                          worker.signalled});
  pmi_.left(worker.id);
  pmix_.left(worker.id);
  advance(worker, WorkerMachine::Event::reaped);
}

std::vector<Supervisor::Leader> Supervisor::live_leaders() const {
  std::vector<Leader> live;
  for (const auto& [id, worker] : workers_) {
    if (worker->pid >= 0) live.push_back({id, worker->pid});
  }
  return live;
}

bool Supervisor::lives(WorkerId worker) const {
  const auto it = workers_.find(worker);
  return it != workers_.end() && it->second->pid >= 0;
}

bool Supervisor::was_asked_to_end(pid_t pid) const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [pid](const auto& one) { return one.second->asked.contains(pid); });
}

bool Supervisor::was_left_behind(pid_t pid) const {
  const auto owner = owner_of(pid);
  const auto it = owner ? workers_.find(*owner) : workers_.end();
  return it == workers_.end() || !it->second->was_asked;
}

std::optional<WorkerId> Supervisor::owner_of(pid_t child) const {
  if (const auto it = by_pid_.find(child); it != by_pid_.end()) return it->second;
  if (const auto mark = worker_mark(child)) return mark;
  const auto stat = process_stat(child);
  // The number of a session is not given to a new process while the session has members. The newest worker
  // comes first all the same: an old one's session may be over and its number used again.
  for (auto it = workers_.rbegin(); stat && it != workers_.rend(); ++it) {
    if (it->second->leader == stat->session) return it->first;
  }
  return std::nullopt;
}

void Supervisor::forget(const std::vector<WorkerId>& workers) {
  std::erase_if(workers_, [&](auto& entry) {
    auto& worker = *entry.second;
    if (worker.pid >= 0 || (!workers.empty() && !names(workers, worker.id))) return false;
    worker.forgettable = true;
    return worker.machine.state() == WorkerMachine::State::finished;
  });
}

std::vector<pid_t> Supervisor::processes_of(const std::vector<WorkerId>& workers) const {
  std::vector<pid_t> found;
  const ProcessTree tree;
  for (const auto child : tree.children(::getpid())) {
    const auto owner = workers.empty() ? std::nullopt : owner_of(child);
    if (!workers.empty() && (!owner || !names(workers, *owner))) continue;
    if (!workers.empty() || !is_kept_(child)) found.push_back(child);
    for (const auto pid : tree.descendants(child)) found.push_back(pid);
  }
  return found;
}

namespace {

// These ask a program to do something; the others are the kernel's own work on every process.
bool is_request(int number) {
  return number == SIGTERM || number == SIGINT || number == SIGQUIT || number == SIGHUP ||
         number == SIGUSR1 || number == SIGUSR2;
}

}  // namespace

void Supervisor::request(Worker& worker, const ProcessTree& tree, int number) {
  for (const auto pid : addressees(tree, worker.pid, number)) {
    if (number != SIGTERM || worker.asked.note(pid)) ::kill(pid, number);
  }
  worker.was_asked |= number == SIGTERM;
}

void Supervisor::signal(const wire::Signal& order) {
  reap();  // who is dead did not die of this, and must not seem to
  const ProcessTree tree;
  std::vector<WorkerId> without_leader;
  for (const auto& [id, worker] : workers_) {
    const bool meant = order.workers.empty() || names(order.workers, id);
    if (meant && worker->pid < 0 && worker->asked.any_lives()) without_leader.push_back(id);
    // Only while the leader is not reaped is the group's number surely still its own.
    if (!meant || worker->pid < 0) continue;
    worker->signalled.add(order.number);
    if (is_request(order.number)) {
      request(*worker, tree, order.number);
    } else {
      ::kill(-worker->pid, order.number);
    }
    if (order.number == SIGTERM) ::kill(-worker->pid, SIGCONT);  // a stopped process would not hear it
  }
  if (order.number == SIGKILL && !without_leader.empty())
    signal_all([&] { return processes_of(without_leader); }, SIGKILL);
  if (!order.deep) return;
  signal_all([&] { return processes_of(order.workers); }, order.number);
}

void Supervisor::print(WorkerId worker, wire::Output stream, const std::string& text) {
  if (!lives(worker)) return;
  credit_.charge(text.size());
  link_.send(wire::OutputBytes{worker, stream, text});
}

void Supervisor::give_stdin(const wire::Stdin& data) {
  const auto it = workers_.find(data.worker);
  if (it != workers_.end() && it->second->in) it->second->in->give(data.bytes, data.end);
}

std::vector<wire::Problem> problems_of(const wire::OpenJob& order) {
  std::vector<wire::Problem> problems;
  const auto path = wire::value_of(order.env, "PATH");
  for (std::size_t i = 0; i < order.directories.size(); ++i) {
    const auto& directory = order.directories[i];
    struct stat info {};
    const int error = ::stat(directory.c_str(), &info) != 0 ? errno : S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
    if (error != 0 || ::access(directory.c_str(), X_OK) != 0) {
      problems.push_back({wire::Problem::Kind::directory, directory, error != 0 ? error : errno});
    } else if (i < order.programs.size()) {
      const auto found = io::find_program(order.programs[i], path, directory);
      const bool relative = order.programs[i].find('/') != std::string::npos;
      if (found.error != 0)
        problems.push_back(
            {wire::Problem::Kind::program,
             relative ? (std::filesystem::path(directory) / order.programs[i]).lexically_normal().string()
                      : order.programs[i],
             found.error});
      const auto script = i < order.scripts.size() ? order.scripts[i] : std::string();
      const auto file = (std::filesystem::path(directory) / script).lexically_normal().string();
      if (found.error == 0 && !script.empty() && ::access(file.c_str(), R_OK) != 0)
        problems.push_back({wire::Problem::Kind::script, file, errno});
    }
  }
  return problems;
}

}  // namespace trainrun::agent
