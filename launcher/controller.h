// The body: turns what happens into events for the brain, and performs the brain's actions. It decides
// nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/exit_code.h"
#include "launcher/base/fd.h"
#include "launcher/core/hang_watch.h"
#include "launcher/core/job_machine.h"
#include "launcher/core/master_port.h"
#include "launcher/core/stall_watch.h"
#include "launcher/core/world_start.h"
#include "launcher/fleet.h"
#include "launcher/input.h"
#include "launcher/io/loop.h"
#include "launcher/output/console.h"
#include "launcher/output/event_line.h"
#include "launcher/output/events_file.h"
#include "launcher/output/journal_file.h"
#include "launcher/output/recorded_error.h"
#include "launcher/rendezvous_hub.h"
#include "launcher/store_census.h"
#include "rendezvous/exchange.h"

namespace trainrun {

class Controller {
 public:
  // `first` is the placement of a job that is not elastic, and empty else.
  Controller(io::Loop& loop, JobSpec job, const core::Placement& first, std::string key);
  ~Controller();

  // Dials every host; from here on all happens in the loop, which is stopped when the job is over.
  Result<void> start();
  // Tells --events and the journal so, and then stops the loop.
  void could_not_start(const Error& error);
  // `by_ctl`: nobody sent it, `trainrun ctl end` asks for the same.
  void user_signal(int number, bool by_ctl = false);
  void forward_signal(int number) { fleet_.send_all(wire::Signal{{}, number, false}); }
  // ^Z: the workers and then this process stop; fg: all go on.
  void suspend();
  void say(const std::string& line) { console_.say(line); }
  // --events: from now on what happens is written there, too.
  void write_events(Result<Fd> file);
  // --journal: the same of what the brain hears. To be called before it has heard anything.
  void write_journal(Result<Fd> file);
  // Something happened outside: the brain decides what follows.
  void event(const core::JobEvent& event);
  // What to do when the brain wants to know the hosts of now; nothing by default.
  void on_ask_for_hosts(std::function<void()> ask) { ask_for_hosts_ = std::move(ask); }
  [[nodiscard]] const core::JobMachine& machine() const { return machine_; }
  [[nodiscard]] int exit_code() const { return exit_code_; }
  // By which signal from outside the job was ended; 0: by none.
  [[nodiscard]] int ended_by() const;
  // An agent on this host ended without being told to.
  [[nodiscard]] bool lost_agent_here() const { return lost_agent_here_; }

 private:
  void message(HostIndex host, const wire::Frame& frame);
  void output(HostIndex host, const wire::Frame& frame);
  void exited(HostIndex host, const wire::Frame& frame);

  void perform(const core::AddHost&);
  void perform(const core::DialHost&);
  void perform(const core::ReservePort&);
  void perform(const core::BeginWorld&);
  void admit_to_stdin(const std::vector<WorkerId>& workers);
  void perform(const core::PlanNewcomers&);
  void perform(const core::StartWorker&);
  void perform(const core::SignalWorkers&);
  void perform(const core::Sweep&);
  void perform(const core::Announce&);
  void perform(const core::Dismiss&);
  void perform(const core::Inspect&);
  void perform(const core::AskForHosts&);
  void perform(const core::EndGeneration&);
  void perform(const core::StopHost&);
  void perform(const core::AbandonHost&);
  void perform(const core::Arm&);
  void perform(const core::Disarm&);
  void forget_survived_errors();
  [[nodiscard]] std::set<Rank> survivors() const;
  void some_have_ended();
  void advise(const core::notice::Restarting& restarting);
  void perform(const core::Tell&);
  void perform(const core::Finish&);

  // The seat of a worker, if it is one of that host: an agent has no say about others.
  [[nodiscard]] const core::Seat* seat_on(HostIndex host, WorkerId worker) const;
  [[nodiscard]] std::vector<std::string> words_of(WorkerId worker) const;
  [[nodiscard]] RendezvousHub::Events members();
  void tell_refused(HostIndex host, const std::string& what);
  void ranks_wait(Generation generation, const std::set<Rank>& came, const std::string& where);
  void tell(const StoreFindings& found);
  [[nodiscard]] std::vector<core::AbsentWorker> with_last_words(const std::vector<WorkerId>& workers) const;
  [[nodiscard]] const std::string& host_name(HostIndex host) const {
    return job_.hosts.hosts[host.value].name;
  }
  void cannot_start(const core::StartWorker& order, const Error& error);
  void use_port();
  void inspected(HostIndex host, const wire::Inspected& found);
  void stop_here();
  void exchanges(HostIndex host, const wire::Frame& frame);
  void lost_to_exchange(HostIndex host);
  void go_on_without(Rank rank, const std::string& how);
  void perform(rendezvous::Exchange::Effects effects);
  void aborted(HostIndex host, const wire::Aborted& abort);
  void asked_to_end();
  void last_report();
  std::vector<std::string> report_lines();
  void write_end_event(const std::vector<std::string>& report);  // once
  void end_events(const std::vector<std::string>& report);
  void end_journal();
  [[nodiscard]] Instant end_of_side_files() const;
  [[nodiscard]] output::Moment moment() const;
  void sign_of_life();
  void watch_life();
  [[nodiscard]] std::vector<WorkerId> awaited() const;
  void watch_operations();

  io::Loop& loop_;
  JobSpec job_;  // hosts that are found later are appended
  core::JobMachine machine_;
  output::Console console_;
  std::optional<output::EventsFile> events_;
  bool reported_ = false;  // the report is made, and may not be read yet
  bool told_end_ = false;  // to events_
  std::optional<output::JournalFile> journal_;
  RendezvousHub rendezvous_;
  rendezvous::Exchange exchange_;
  Fleet fleet_;
  Input input_;
  std::map<core::Deadline, std::unique_ptr<io::Timer>> timers_;

  core::WorldStart world_;          // that runs or is being formed
  std::set<std::string> refusals_;  // of clients at doors, that were told
  std::set<std::string> advice_;    // that was given at restarts
  bool told_of_horovod_ = false;    // that what it can go on after ends this job
  const HostIndex likely_first_;    // of rank 0 in the first world: asked for a port with its greeting
  core::MasterPort port_;
  std::uint16_t master_port_ = 0;  // of the world

  std::function<void()> ask_for_hosts_;
  core::HangWatch hang_;
  io::Timer life_;  // of its next look
  core::StallWatch stall_;
  io::Timer stalled_;                  // of its next look
  std::set<WorkerId> members_before_;  // of the latest generation that came up
  std::set<Rank> want_another_;        // world: of the current one
  io::Timer wanted_;                   // it is told who does not
  std::optional<WorkerId> has_stdin_;  // with --stdin RANK: the last one that was given it
  std::map<WorkerId, Instant> last_stderr_;
  std::map<WorkerId, output::RecordedError> recorded_;  // of workers that failed
  std::map<WorkerId, std::string> stacks_;              // that an inspection found, until they are shown
  StoreCensus store_;                                   // of PyTorch, held by rank 0
  Generation progressed_{};                             // whose first pulse was heard
  bool suspending_ = false;
  bool lost_agent_here_ = false;

  // The end. What waits for a slow reader or disk is not waited for as long when somebody waits for us.
  int user_signals_ = 0;
  std::optional<Instant> asked_to_end_;  // by the user or --timeout: since then
  std::optional<Instant> job_deadline_;  // real time
  std::optional<core::Finish> finish_;
  const Instant began_ = io::Loop::now();
  Instant finished_at_{};
  int exit_code_ = to_int(ExitCode::internal);
};

}  // namespace trainrun
