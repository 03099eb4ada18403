// The brain: one pure machine that decides everything about a job. step(event, now) gives the actions to
// perform; it opens nothing, reads no clock, knows no environment.
//
//   gathering -> forming(g) -> running(g) -> draining(g, cause) -> closing -> done
//
// gathering: agents are being reached. forming: a port is reserved and workers are started. running: all were
// started. draining: TERM was sent, a deadline for KILL is armed. closing: no worker is left, agents clear up
// and go.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "launcher/core/job_action.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"

namespace trainrun::core {

class JobMachine {
 public:
  enum class Phase : std::uint8_t { gathering, forming, running, draining, closing, done };

  // What a status line shows.
  struct Progress {
    Phase phase = Phase::gathering;
    int hosts = 0, hosts_ready = 0;
    int ranks = 0, started = 0, alive = 0, finished = 0;
  };

  // `spec` and `placement` must outlive the machine.
  JobMachine(const JobSpec& spec, const Placement& placement);

  JobActions step(const JobEvent& event, Instant now);

  [[nodiscard]] Progress progress() const;
  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] const Seat* seat_of(WorkerId worker) const;
  // Empty when all invariants hold, else the one that does not; tests ask after every step.
  [[nodiscard]] std::string broken_invariant() const;

 private:
  enum class HostState : std::uint8_t { dialling, ready, stopping, gone };
  enum class WorkerState : std::uint8_t { ordered, spawned, exited, finished };
  struct Worker {
    WorkerState state = WorkerState::ordered;
    Rank rank;
    HostIndex host;
    std::uint32_t pid = 0;
    bool killed = false;  // alive when KILL was sent
    std::optional<Failure> failure;
    ExitStatus status;
  };

  void on(const Begin&);
  void on(const HostReady&);
  void on(const HostFailed&);
  void on(const HostLost&);
  void on(const PortReserved&);
  void on(const PortRefused&);
  void on(const WorkerStarted&);
  void on(const WorkerNotStarted&);
  void on(const WorkerExited&);
  void on(const WorkerFinished&);
  void on(const HostStopped&);
  void on(const UserSignal&);
  void on(const OutputClosed&);
  void on(const DeadlinePassed&);

  void enter(Phase next);
  void form();
  void start_workers();
  void give_up_gathering();
  // Ends the job because of `kind`: drains the workers, or closes at once when there are none. The verdict's
  // details are filled in when all is over.
  void end_because(Outcome::Kind kind);
  void drain(Outcome::Kind kind);
  void kill_now();
  void after_worker_change();
  void close();
  void finish_if_all_gone();
  void leave_at_once();
  void lose_workers_of(HostIndex host, const std::string& reason);
  void settle_verdict();
  void ignore(const char* what, const char* why);

  [[nodiscard]] bool ended_by_us(const WorkerExited& event) const;
  [[nodiscard]] bool all_workers(WorkerState state) const;
  [[nodiscard]] std::string host_name(HostIndex host) const;
  [[nodiscard]] std::string generation_end_reason() const;
  void act(JobAction action) { actions_.push_back(std::move(action)); }

  const JobSpec& spec_;
  const Placement& placement_;
  Phase phase_ = Phase::gathering;
  Instant now_{}, began_{}, drained_at_{};
  std::map<HostIndex, HostState> hosts_;
  std::map<WorkerId, Worker> workers_;
  std::set<Deadline> armed_;
  int user_signals_ = 0;
  bool kill_sent_ = false;
  Outcome verdict_;
  JobActions actions_;
};

std::string to_string(JobMachine::Phase phase);

}  // namespace trainrun::core
