// One schedule: the real brain, a body that does what job_action.h says, and a model of everything beyond it.
// Nothing here runs in real time, and nothing is random but by the schedule's seed.
//
// simulation.cc: the loop, the brain's events, timers and discovery; _body: actions; _links: connections,
// silence; _agents: what agents do; _programs: what workers do; _faults: what goes wrong.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/core/job_machine.h"
#include "tests/sim/digest.h"
#include "tests/sim/judge.h"
#include "tests/sim/meeting.h"
#include "tests/sim/scenario.h"
#include "tests/sim/timeline.h"

namespace trainrun::sim {

struct Machine {
  std::string name;
  bool on = true;
  int slow = 0;
  Instant left_until{}, spawn_fails_until{}, dial_fails_until{}, dial_late_until{};
};

struct Process {
  WorkerId worker;
  Generation born;
  HostIndex host;
  Rank rank;
  std::uint32_t slot = 0;
  bool alive = true, done = false, frozen = false, term_pending = false, kill_pending = false;
  bool ignores_term = false, daemon = false, stuck = false, lost_peer = false;
  bool failing = false;  // its world has failed by it: it cannot end well any more
  SignalSet signalled;   // by the brain's orders, while it lived
  Instant held_until{}, output_until{};
  std::optional<ExitStatus> ends;  // as soon as it goes on
  // As a member: in which generation it believes itself to be.
  enum class At : std::uint8_t { booting, joining, working, waiting, leaving };
  At at = At::booting;
  Generation generation;
  std::optional<bool> notice;  // heard, not yet acted upon; true: it is to stop
  std::vector<Word> unheard;   // while it was frozen
  int turn = 0;                // what was planned for another turn is void
  int agent = 0;
};

// One incarnation of an agent, and the connection to it.
struct Agent {
  int index = 0;
  HostIndex host;
  int machine = 0;
  bool up = false, ending = false, gone = false, stopping = false, killed = false;
  int frozen = 0;
  std::vector<Timeline::Work> deferred;  // while it was frozen
  std::map<WorkerId, Process*> processes;
  std::set<WorkerId> to_start;             // ordered, and not done yet
  std::map<WorkerId, Generation> daemons;  // of dead workers
  bool closed_here = false;                // the launcher's end is closed
  bool broken = false;                     // nothing passes any more
  int cut = 0, silent = 0, silence = 0;
  Instant up_at{}, down_at{}, silent_since{};
  std::vector<Timeline::Work> held_up, held_down;  // while the cable is cut
};

struct Session {  // a host as the body sees it
  enum class State : std::uint8_t { none, dialling, ready, closing };
  State state = State::none;
  Agent* agent = nullptr;
  int dial = 0;
};

struct Stats {
  std::uint64_t schedules = 0, steps = 0, generations = 0, restarts = 0, in_place = 0, faults = 0;
  std::uint64_t overlaps = 0;  // a worker that started where one of an earlier incarnation still lived
  std::map<std::string, std::uint64_t> outcomes;
  std::map<std::pair<std::string, std::string>, std::uint64_t> reached;  // phase and event
  Digest digest;
  void add(const Stats& other);
};

class Simulation {
 public:
  Simulation(const Scenario& scenario, const std::vector<bool>& skip_faults, bool trace);

  // Empty: every invariant held, and the job ended.
  std::string run();
  [[nodiscard]] const Stats& stats() const { return stats_; }
  // Writes down which events come in which phases.
  void cover() { covers_ = true; }
  // Sums up what is decided: two brains with the same sum have decided the same.
  void digest() { digests_ = true; }

 private:
  using Work = Timeline::Work;
  [[nodiscard]] Instant now() const { return timeline_.now(); }
  void tell(const core::JobEvent& event);
  void post(core::JobEvent event) {
    timeline_.in(Duration::zero(), [this, event = std::move(event)] { tell(event); });
  }
  void trace(const std::string& text);
  [[nodiscard]] std::vector<core::LateHost> late() const;

  // body
  void perform(const core::AddHost& order);
  void perform(const core::DialHost& order);
  void perform(const core::ReservePort& order);
  void perform(const core::BeginWorld& order);
  void perform(const core::PlanNewcomers& order);
  void perform(const core::StartWorker& order);
  void perform(const core::SignalWorkers& order);
  void perform(const core::Sweep& order);
  void perform(const core::Announce& order);
  void perform(const core::Dismiss& order);
  void perform(const core::Inspect& order);
  void perform(const core::AskForHosts& order);
  void perform(const core::EndGeneration& order);
  void perform(const core::StopHost& order);
  void perform(const core::AbandonHost& order);
  void perform(const core::Arm& order);
  void perform(const core::Disarm& order);
  void perform(const core::Tell& order);
  void perform(const core::Finish& order);
  Session& session(HostIndex host);
  [[nodiscard]] bool listens(HostIndex host);
  void from_worker(const Agent& agent, WorkerId worker, const core::JobEvent& event);
  void watch_silence();

  // links
  [[nodiscard]] Duration latency(const Agent& agent);
  void up(Agent& agent, Work work);
  void down(Agent& agent, Work work);
  void run_on(Agent& agent, Work work);
  void break_link(Agent& agent, const std::string& reason);
  void launcher_sees_end(Agent& agent, const std::string& reason);
  void close_here(Agent& agent);
  void cut(Agent& agent);
  void heal(Agent& agent);
  void freeze(Agent& agent);
  void thaw(Agent& agent);
  void silent(Agent& agent);
  void heard(Agent& agent);

  // agents
  Agent& new_agent(HostIndex host, int machine);
  void greet(HostIndex host, int dial, int machine);
  void spawn(Agent& agent, const core::StartWorker& order, std::uint32_t slot);
  void signal(Agent& agent, int number, bool deep, const std::vector<WorkerId>& workers);
  void sweep(Agent& agent, const std::vector<WorkerId>& workers);
  void end_all(Agent& agent);
  void all_ended(Agent& agent);
  void crash(Agent& agent);
  void died(Process& process, ExitStatus status);
  void reaped(Process& process, const ExitStatus& status);

  // programs
  void boot(Process& process);
  void hear(Process& process, const Word& word);
  void later(Process& process, Duration wait, Work work);
  void ask_rendezvous(Process& process, Work work);
  void join(Process& process);
  void ask_for_first_place(Process& process);
  void wait_for_place(Process& process);
  void leave_world(Process& process);
  void heed_notice(Process& process);
  void exit_by_itself(Process& process, ExitStatus status, bool lost_peer);
  void stop_process(Process& process);
  void continue_process(Process& process);
  void world_works(Generation generation);
  void work_done(Generation generation, int turn);
  void world_commits(Generation generation);
  void world_fails(Generation generation, const Process* culprit);
  void send_signal(Process& process, int number);

  // faults
  void apply(const Fault& fault);
  void change_hosts(const Fault& fault);
  void discover(Duration wait);
  [[nodiscard]] std::vector<Agent*> live_agents();
  [[nodiscard]] std::vector<Process*> live_processes();
  [[nodiscard]] int machine_of(const std::string& name);
  void power(int machine, bool on);
  void note_capacity();

  const Scenario scenario_;
  const bool trace_;
  Random random_;
  Timeline timeline_;
  Judge judge_;
  core::JobMachine machine_;
  Meeting rendezvous_;
  Stats stats_;
  const Instant start_;

  std::deque<Machine> machines_;
  std::deque<Agent> agents_;
  std::deque<Process> processes_;
  std::map<WorkerId, Process*> process_of_;
  std::deque<Session> sessions_;
  std::vector<std::string> names_;
  std::map<core::Deadline, int> timers_;
  int timer_turn_ = 0;
  core::Placement later_;  // with newcomers
  core::BeginWorld world_;
  std::vector<Host> list_;
  bool list_told_late_ = false;
  bool port_refused_ = false, finished_ = false;
  bool covers_ = false;
  bool digests_ = false;
  int steps_ = 0, stopped_slots_ = 0;
  std::set<std::string> removed_;  // by the user
  std::vector<Fault> faults_;
  std::size_t next_fault_ = 0;
  Instant calm_since_{};  // no fault has effect after it
  // The world's work.
  Duration left_{};
  Generation working_{};
  Instant working_since_{}, last_sign_{}, world_began_{};
  bool silence_told_ = false;
  int work_turn_ = 0;
};

}  // namespace trainrun::sim
