// What must hold, judged from what the brain was told, ordered and showed, never from what it thinks.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/core/job_machine.h"
#include "tests/sim/judge_waits.h"
#include "tests/sim/scenario.h"

namespace trainrun::sim {

class Judge {
 public:
  explicit Judge(const Scenario& scenario);

  void event(const core::JobEvent& event, Instant now);
  void action(const core::JobAction& action, Instant now);
  void after_step(const core::JobMachine& machine);
  // An agent has started the process.
  void spawned(int machine, Generation generation);
  // It will fail because of a peer, and not say so.
  void silent_victim(WorkerId worker) { silent_victims_.insert(worker); }
  // The hosts that are healthy and listed can, or cannot, hold the smallest world.
  void capacity(bool enough, Instant now);
  // Nothing more will happen: was there an end?
  void over(const core::JobMachine& machine, Instant now, Instant calm_since, bool timed_out);
  void fail(std::string what) {
    if (broken_.empty()) broken_ = std::move(what);
  }
  [[nodiscard]] const std::string& broken() const { return broken_; }
  [[nodiscard]] const std::optional<core::Outcome>& outcome() const { return outcome_; }

 private:
  struct Known {  // a worker, by what was ordered and told
    enum class State : std::uint8_t { ordered, started, exited, lost };
    State state = State::ordered;
    core::Seat seat;
    Generation generation;  // the latest that it is in
    bool was_member = false, finished = false, counted_as_sick = false;
    bool ended_by_order = false;  // it was dismissed, signalled by name, or told to leave
    std::optional<ExitStatus> status;
    Instant started_at{}, ended_at{};
    bool asked = false;                   // it got a signal before
    bool lost_peer = false;               // it said so
    std::optional<Instant> killed_at;     // SIGKILL was ordered
    Generation asked_in{};                // it has left that one, and asked for its next place
    bool dismissed = false;               // it has no place any more
    std::optional<Instant> told_to_go{};  // when it was told so, or that it would have none
    bool newcomer = false;                // it has had none so far ...
    bool ready = false;                   // ... and has asked for it
  };
  enum class Link : std::uint8_t { none, dialling, ready, closing };
  struct KnownHost {
    Host host;
    Link link = Link::none;
    bool listed = true, removed = false, leaving = false;
    bool kept = false;                     // its agent was there when it was unlisted, and a world had begun
    std::optional<Instant> sweep_since{};  // it was asked to, and has not answered
    Generation sweep_of{};
    int stopped = 0;    // slots, by the user, at most
    bool good = true;   // it never gave any trouble ...
    bool stays = true;  // ... or none but that ranks failed there
    Instant sick_at{};  // when the last of those did
    bool was_lost = false;
    int failures = 0;  // to be reached, or to stay, in a row
    int ranks_failed = 0;
    Instant not_before{}, rests_until{}, away_until{};
    std::optional<Instant> left_out_at{};  // to rest for its ranks' failures, as was told last
  };

  void begins(const core::BeginWorld& begin);
  void check_in_place(const core::BeginWorld& begin);
  void check_neighbours(const core::BeginWorld& begin);
  void check_size(const core::BeginWorld& begin);
  void check_places(const core::BeginWorld& begin);
  void starts(const core::StartWorker& start);
  void ends(const core::Outcome& outcome, Instant now);
  void check_cause(const core::Outcome& outcome);
  [[nodiscard]] bool failed_by_itself(WorkerId id) const;
  void abandons(HostIndex host, Instant now);
  void lose(HostIndex host);
  KnownHost& host(HostIndex index);
  [[nodiscard]] bool listed_hosts_hold();
  void need_link(HostIndex index, const char* what);
  // judge_newcomers.cc
  void note_newcomer(const core::JobEvent& event);
  void note_told_of_newcomer(const core::notice::NewcomerFailed& told);
  void plans(const core::PlanNewcomers& plan);
  void check_nobody_waits(const core::BeginWorld& begin);
  void check_nobody_is_left_out(const core::BeginWorld& begin);
  void check_newcomers(const core::JobMachine& machine);
  void check_cost_of_newcomers();
  [[nodiscard]] bool loads(const Known& worker) const;
  [[nodiscard]] bool grows_later() const;
  [[nodiscard]] int newcomers(bool that_are_ready) const;
  // judge_costs.cc: what a failure costs
  void note_failure(const core::JobEvent& event);
  void check_costs(const core::JobMachine& machine);
  void check_backoff(core::JobPhase phase);
  void note_world(const core::JobMachine& machine);
  // judge_ends.cc: the end of an in-place program
  void note_end_of_program(const core::JobEvent& event);
  void note_death(WorkerId id, const ExitStatus& status);
  void note_who_is_freed(const core::EndGeneration& end);
  void check_who_was_freed();
  void check_who_goes_on(const core::BeginWorld& begin);
  void check_end_of_program(const core::JobMachine& machine);
  void check_asked(const core::JobMachine& machine);
  void check_settle(const core::JobMachine& machine);
  // judge_views.cc: what is shown, and that nothing is put off
  [[nodiscard]] bool is_member(const Known& worker) const;
  [[nodiscard]] static bool ended(const Known& worker);
  void check_views(const core::JobMachine& machine);
  void check_host_view(const core::HostView& view);
  void check_prompt(const core::JobMachine& machine);
  [[nodiscard]] bool all_ask() const;
  [[nodiscard]] bool some_ask() const;
  void check_draining();
  void check_gathering();
  void check_cooling();
  [[nodiscard]] int good_slots(Link link) const;
  void newcomers_may_come();
  [[nodiscard]] bool horovods_may_come() const;
  [[nodiscard]] int slots_for_newcomers() const;
  [[nodiscard]] bool budget_left() const;
  void note_back_off(const core::notice::BackingOff& told);
  void check_those_who_went_on();
  void note_planned(const core::Cause& why);
  void check_who_backs_off();
  void tell_to_go(Known& worker) const;
  void check_grace(const Known& worker, WorkerId id);
  void check_kill_while_loading(const Known& worker, WorkerId id);
  [[nodiscard]] bool holds(int slots) const;
  void check_waits(core::JobPhase phase);
  // judge_answers.cc: what must follow in the same step
  struct Step {
    bool stands = false, in_place = false;  // the world, before the event
    bool ends_world = false, keeps_world = false, waits_for_cause = false, spares_others = false;
    bool ends_job = false, inspects = false, nobody_came = false, asks = false, changes = false,
         is_done = false;
    bool joins = false, alive = false;
    std::optional<WorkerId> only;          // it alone is to end
    std::optional<core::Deadline> passed;  // of those that hosts have
    bool by_user = false;                  // it removes a host
    bool did_inspect = false, did_ask = false, did_announce = false, did_signal_all = false;
    std::set<WorkerId> signalled;
  };
  void note_question(const core::JobEvent& event);
  void ask_hosts(HostIndex host);
  void ask_restart(Rank rank);
  void ask_of_exit(const core::WorkerExited& exited, bool waits_for_cause);
  void ask_of_deadline(core::Deadline deadline);
  void note_answer(const core::JobAction& action);
  void check_answer(const core::JobMachine& machine);
  void check_spared(bool job_ends);
  void check_given_up();
  [[nodiscard]] Instant known_until(HostIndex host) const;
  void check_stop(HostIndex index);
  void check_released(core::JobPhase phase);
  [[nodiscard]] int size_on(int slots) const;
  [[nodiscard]] int handing_over() const;
  [[nodiscard]] bool change_is_due() const;
  [[nodiscard]] bool loads() const;
  void check_change(core::JobPhase phase);
  [[nodiscard]] bool may_restart() const;
  [[nodiscard]] bool all_loaded() const;
  [[nodiscard]] bool fails_by_itself(WorkerId id, const ExitStatus& status, bool signalled) const;
  [[nodiscard]] int live_members(std::optional<HostIndex> on, std::optional<WorkerId> but) const;
  // judge_told.cc: what is told
  void check_order(const core::JobAction& action);
  void check_announced(const core::Announce& announce);
  void check_notice(const core::Notice& notice);
  void note_told(const core::Notice& notice);
  void check_named(const core::Failure& cause);
  [[nodiscard]] bool goes_away(HostIndex index) const;
  [[nodiscard]] int slots_there(HostIndex index) const;
  // judge_hosts.cc: who is reached
  void note_hosts(const core::JobEvent& event);
  void note_trouble(HostIndex index, bool blamed);
  void note_added(const core::AddHosts& add);
  void goes(HostIndex index);
  void check_dial(HostIndex index);
  void note_stopped(Rank rank);
  void note_sick(WorkerId id, const ExitStatus& status);
  void check_reached(core::JobPhase phase);
  [[nodiscard]] int most_wanted() const;
  // judge_verdict.cc: the way to the end, and what is reported
  void note_end(const core::JobEvent& event);
  void note_signal(const core::UserSignal& signal);
  void note_signals(const core::SignalWorkers& order);
  void note_close(const core::notice::PhaseChanged& change);
  void check_ladder(core::JobPhase phase);
  void check_told(const core::notice::GenerationFormed& formed);
  void check_report(const core::Outcome& outcome);
  void check_out_of_restarts(const core::Outcome& outcome);
  void check_times(const core::Outcome& outcome);
  void check_tally(const core::Outcome& outcome);
  void check_lost_host(const core::Outcome& outcome);
  // Hosts may come and go.
  [[nodiscard]] bool goes_on() const { return scenario_.spec.elastic.enabled() && !job_ends_ && !closed_at_; }
  [[nodiscard]] bool in_world(const Known& worker) const {
    return world_ && worker.generation == world_->placement.generation;
  }
  [[nodiscard]] bool program_ends() const { return done_now_ || done_before_; }
  [[nodiscard]] bool lives(const Known& worker) const {
    return worker.state == Known::State::ordered || worker.state == Known::State::started;
  }

  const Scenario& scenario_;
  std::string broken_;
  std::vector<KnownHost> hosts_;
  bool slot_stopped_ = false;    // by the user
  std::set<std::string> added_;  // by the user, when no list had them
  std::map<WorkerId, Known> workers_;
  std::optional<core::BeginWorld> world_;
  Generation reserved_{}, delivered_{}, broken_generation_{}, announced_generation_{};
  std::set<WorkerId> to_start_;
  std::map<int, Generation> begun_on_;                                  // by machine
  std::optional<HostIndex> ready_now_;                                  // by the latest event
  std::optional<WorkerId> dismissed_unfinished_;                        // since the latest world began
  core::JobMachine::Phase phase_ = core::JobMachine::Phase::gathering;  // after the latest step

  std::vector<Instant> restarts_;
  int restarts_seen_ = 0;
  bool join_passed_ = false;  // the latest event: its deadline
  std::set<WorkerId> silent_victims_;
  std::set<WorkerId> failed_;  // by themselves, since the world began, and nothing has followed yet
  std::optional<Instant> failed_since_;
  std::optional<HostIndex> failed_host_;
  // Who was there when a restart was paid, until the world has come up: the end of each is free, once.
  std::set<WorkerId> there_;
  std::set<HostIndex> there_hosts_;
  std::string unpaid_;                 // a failure for which nothing was charged
  bool kept_ = false;                  // the world has workers of the one before
  Generation met_{};                   // the latest world whose members have all joined
  Generation up_generation_{};         // the latest world that has come up
  std::uint32_t generation_ = 0;       // as the brain counted after the latest step
  std::vector<Instant> crashes_;       // charged, and since then no world has got on with its work
  int forgiven_ = 0;                   // how often such a world has, since one has stood for a minute
  Generation told_{};                  // the latest world that the user has heard of ...
  Generation proved_{};                // the latest that has stood for a minute
  Instant told_at_{};                  // ... and when
  bool charged_ = false;               // since the latest world began
  bool without_newcomers_ = false;     // the same: the survivors go on without them
  std::optional<Duration> backs_off_;  // ordered in this step
  bool rests_now_ = false;             // a host, for its ranks' failures: told in this step
  bool drains_for_charge_ = false;     // what was charged is being drained ...
  std::size_t crashes_at_ = 0;         // ... when so many had been
  bool may_charge_ = false;            // the latest event may be a failure
  bool hung_ = false;                  // nothing came of the latest world's ranks, and it is not paid
  bool plan_is_old_ = false;           // something that it should know came after the next world was planned
  bool began_ = false;                 // in this step
  bool done_now_ = false;              // a member of this world exited with 0
  bool done_before_ = false;           // ... of one that this was formed around, less than a minute ago
  bool joined_ = false;                // somebody has come to the rendezvous of the latest world
  bool survivor_joined_ = false;       // ... who has been in one that met
  bool over_ = false;                  // the generation was ended ...
  bool freed_ = false;                 // ... and its survivors need not wait for each other in it
  bool died_in_it_ = false;            // ... after the death of a member, ...
  bool all_lived_ = false;             // ... or while all were there, for a planned change
  bool asked_now_ = false;             // the latest event: a member asks for its next place
  bool owed_ = false;                  // a failure at the end of a program, for which nothing was charged yet
  bool settled_here_ = false, settles_ = false;  // in this stay in cooling; in this step
  std::optional<Instant> job_ends_;              // no other generation follows
  std::optional<Instant> ending_since_;          // some have finished, and the others have to
  std::optional<WorkerId> died_unfinished_;      // and no world has met since
  int user_signal_ = 0, signals_ = 0;
  bool output_closed_ = false, job_timed_out_ = false;
  std::optional<core::Outcome> outcome_;
  std::optional<Instant> enough_since_;
  Instant now_{};
  Waits waits_;
  Step step_;
  core::JobPhase told_phase_ = core::JobPhase::gathering;
  std::optional<core::Cause> told_cause_;  // to those who wait, when the job was to end
  int kept_state_ = 0;                     // workers of the world that have been in one that met
  int hosts_lost_ = 0;                     // at any time
  bool grows_ = false;                     // the brain knows that it can take newcomers
  bool horovods_ = false;                  // its ranks were Horovod's when it met
  bool elastic_world_ = false;             // its members can be in the next one without a new process

  std::optional<WorkerId> newcomer_failed_;  // the latest event
  bool newcomer_finished_ = false;           // the same
  bool told_of_newcomer_ = false;            // in this step
  int charged_now_ = 0;                      // restarts
  int newcomers_failed_ = 0;                 // in a row, before a world has met
  WorkerId last_newcomer_that_failed_{};
  bool newcomers_given_up_ = false;  // one of them has finished, and no host has come since
  bool hosts_come_ = false;          // by the latest event
  Instant newcomers_from_{};
  std::optional<Instant>
      all_wait_until_;        // those that go on without waiting until then, if they fail as well
  bool planned_end_ = false;  // the latest world, or its plan
  bool death_ = false;        // of a rank or a host: told as what ended the world

  std::optional<core::Outcome::Kind> expected_;  // what came first that ends a job
  Instant begun_at_{}, first_press_{}, pressed_at_{};
  std::optional<Instant> hurried_at_;  // the second press
  std::optional<Instant> closed_at_;   // no rank lives any more
  int presses_ = 0, last_signal_ = 0;
  bool kills_now_ = false, leaves_now_ = false;      // the latest event: the user insists
  std::vector<core::LateHost> late_;                 // in this step
  bool killed_now_ = false, killed_before_ = false;  // SIGKILL to all: in this step, in this drain
  bool grace_passed_ = false;                        // the latest event: its deadline
  std::set<WorkerId> to_kill_;                       // in this step, since the user insists
  bool asked_all_ = false;                           // since the latest world began: a signal to all
  bool over_before_end_ = false;                     // the latest world was over before the job was to end
  std::optional<Instant> restart_since_;             // what was paid for has not come up
  std::optional<Instant> asked_since_;  // some wanted the next world, and others were ended for not asking
  Duration lost_time_{};
};

}  // namespace trainrun::sim
