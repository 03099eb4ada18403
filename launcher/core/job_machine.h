// The brain: one pure machine that decides everything about a job. step(event, now) gives the actions to
// perform; it opens nothing, reads no clock, knows no environment.
//
//   gathering -> forming(g) -> running(g) -> draining(g, cause) -> closing -> done
//                    ^                            |
//                    +---------- cooling <--------+      only when the job is elastic
//
// gathering: agents are being reached. forming: a port is reserved and workers are started. running: all were
// started. draining: who must end is being ended, a deadline for KILL is armed. cooling: the next generation
// waits for its back-off, and for hosts that can hold it. closing: no worker is left, agents clear up and go.
//
// job_machine.cc: gathering and forming; _hosts: who is dialled, used, left; _rooms: how many slots;
// _workers: deaths; _disruption: what follows from a failure or a change; _worlds: the next generation;
// _newcomers: ranks that come later; _leavers: ranks with no place in it; _members: what rendezvous and
// inspection tell; _mpi: what MPI programs tell; _finish: the end of an in-place program; _end: signals,
// deadlines; _late: who has not told; _verdict: whose failure; _tell, _tell_end: what the user is told;
// _invariants: what must hold.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/core/ending.h"
#include "launcher/core/inspection.h"
#include "launcher/core/job_action.h"
#include "launcher/core/job_phase.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/job_view.h"
#include "launcher/core/late_news.h"
#include "launcher/core/placement.h"
#include "launcher/core/replan.h"
#include "launcher/core/restart_policy.h"
#include "launcher/core/roster.h"
#include "launcher/core/share.h"
#include "launcher/core/world.h"

namespace trainrun::core {

class JobMachine {
 public:
  using Phase = JobPhase;
  using HostState = core::HostState;
  using WorkerState = core::WorkerState;
  using Progress = JobProgress;
  using HostView = core::HostView;
  using WorkerView = core::WorkerView;

  // `first` is the placement of a job that is not elastic; an elastic one finds its own, and takes an empty
  // one. These two and the events, each with its moment, are all that ever comes in: the journal keeps them,
  // and a replay decides the same (core/journal.h).
  JobMachine(JobSpec spec, Placement first);
  JobMachine(const JobMachine&) = delete;
  JobMachine& operator=(const JobMachine&) = delete;

  JobActions step(const JobEvent& event, Instant now);

  [[nodiscard]] Progress progress() const;
  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] const Placement& placement() const { return world_.placement(); }
  // Where a worker sits, or sat last, until it is finished and its generation is over; null for any other.
  [[nodiscard]] const Seat* seat_of(WorkerId worker) const;
  // In the generation that began last, and no newcomer.
  [[nodiscard]] bool is_member(WorkerId worker) const;
  [[nodiscard]] std::vector<HostView> hosts() const;
  [[nodiscard]] std::vector<WorkerView> workers() const;
  [[nodiscard]] std::vector<WorkerView> newcomers() const;  // by rank
  [[nodiscard]] int restarts() const { return verdict_.restarts; }
  [[nodiscard]] int restarts_used(Instant now) const { return restarts_.used(now); }  // of --reset-limit
  // Hosts may come and go: the job is elastic, and not ending.
  [[nodiscard]] bool still_changes() const;
  // A generation runs that may be started anew, or one worker of it.
  [[nodiscard]] bool may_restart() const;
  [[nodiscard]] bool may_restart(Rank rank) const;
  // A rank that is restarted is so alone: the others keep their process.
  [[nodiscard]] bool restarts_alone() const { return in_place_now(); }
  // The hosts that are there, and those that may be reached, hold the smallest world without this one ...
  [[nodiscard]] bool holds_without(HostIndex host) const;
  // ... or without one slot.
  [[nodiscard]] bool holds_with_a_slot_less() const;
  // Workers and hosts that were looked at one by one, since the start: no event makes it grow with the job,
  // but those that begin or end a generation.
  [[nodiscard]] std::uint64_t visited() const { return world_.visited() + roster_.visited(); }
  // Empty when all invariants hold, else the one that does not; tests ask after every step.
  [[nodiscard]] std::string broken_invariant() const;

 private:
  // What a drain leads to.
  enum class Then : std::uint8_t { end, restart };

  void on(const Begin&);
  void on(const HostReady&);
  void on(const HostFailed&);
  void on(const HostLost&);
  void on(const HostSwept&);
  void on(const HostLeaving&);
  void on(const HostsDiscovered&);
  void on(const DiscoveryProblem& event) { discovery_problem_ = event.what; }
  void explain_missing_hosts(cause::TooFewHosts& cause);
  void on(const PortReserved&);
  void on(const PortRefused&);
  void on(const WorkerStarted&);
  void on(const WorkerNotStarted&);
  void on(const WorkerExited&);
  void on(const WorkerFinished&);
  void on(const WorkerAborted&);
  void on(const ExchangeBroken&);
  void on(const MemberJoined&);
  void on(const WorldJoined&);
  void on(const WorldBroken&);
  void on(const MemberWaits&);
  void on(const WorldProgressed&);
  void on(const RanksAbsent&);
  void on(const WorldSilent&);
  void on(const WorldAlive&);
  void on(const WorkerInspected&);
  void on(const InspectionDone&);
  void on(const RemoveHost&);
  void on(const AddHosts&);
  void on(const RestartWorld&);
  void on(const RestartWorker&);
  void on(const StopWorker&);
  void on(const HostStopped&);
  void on(const UserSignal&);
  void on(const OutputClosed&);
  void on(const DeadlinePassed&);

  // hosts
  HostIndex host_of(const Host& host);  // known or new
  void dial(HostIndex index);
  void dial_wanted();
  void give_up_host(HostIndex index);
  void forget_error(HostIndex index);
  void leave_host(HostIndex index, const std::string& reason, bool by_user);
  void release_unused();
  void host_ready(HostIndex index);
  void slots_changed(HostIndex index);
  [[nodiscard]] Result<void> slots_suit(HostIndex index) const;
  void watch_hosts();
  [[nodiscard]] bool usable(HostIndex index, const std::set<HostIndex>& forgiven) const;
  [[nodiscard]] int slots_on(HostIndex index) const { return roster_.slots_on(index); }
  [[nodiscard]] Room room_on(HostIndex index) const;
  [[nodiscard]] Shares::Of share_of(HostIndex index) const;
  // Slots that a world could have now, or when those are there that are being dialled.
  [[nodiscard]] int free_slots(bool with_dialling) const;
  [[nodiscard]] bool is_there(HostIndex index, bool with_dialling) const;
  [[nodiscard]] bool slots_are_held() const;
  [[nodiscard]] std::vector<Room> rooms(bool with_dialling) const;
  // The listed hosts do not hold the smallest world: those that were kept serve as well.
  [[nodiscard]] bool kept_ones_serve(bool with_dialling) const;
  [[nodiscard]] std::set<HostIndex> kept_hosts() const;
  // So many ranks on unlisted hosts alone hold the state, and stay until others, for which there is room, do.
  [[nodiscard]] int handing_over() const;
  // What the next world may use: listed hosts, and kept ones where they serve. Who hands over comes on top.
  [[nodiscard]] std::vector<Room> rooms_for_next(bool with_dialling) const;
  [[nodiscard]] int slots_for_next(bool with_dialling) const;
  [[nodiscard]] std::set<HostIndex> forgiven() const { return roster_.forgiven(now_); }
  [[nodiscard]] bool any_dialling() const { return roster_.count(HostState::dialling) > 0; }
  [[nodiscard]] bool has_live_members(HostIndex host) const { return world_.has_live_members(host); }

  // gathering, forming
  void give_up_gathering();
  void start_without_the_late();
  // How long hosts are gathered at most: also never longer than the job waits for the smallest world.
  [[nodiscard]] Duration gathering_timeout() const;
  [[nodiscard]] bool start_timeout_decides() const;
  void end_without_hosts(Duration after, Limit limit);
  void try_form();
  void nobody_is_left();
  void wait_for_hosts(int slots);
  [[nodiscard]] std::vector<AwaitedHost> awaited_hosts() const;
  void tell_host_error(HostIndex index, const Error& error);
  void tell_host_errors();
  [[nodiscard]] bool is_news(HostIndex index, const Error& error);  // and writes it down
  void tell_what_is_there(int slots);
  void tell_that_state_is_lost();
  [[nodiscard]] bool first_choice_is_ready(int size) const;
  void form_next(int size);
  [[nodiscard]] Placement plan_around(Generation next, const std::vector<const Worker*>& alive,
                                      const std::vector<const Worker*>& newcomers, int size) const;
  void form();
  bool mpi_is_one();
  void begin_world();
  void leave_world(WorkerId id);  // it has ended, and has no place any more
  void world_runs();

  // worlds
  struct Disruption {
    Outcome::Kind kind = Outcome::Kind::worker_failed;
    Cause what{};
    CauseKind cause = CauseKind::rank_failed;  // by which it is counted
    bool planned = false;                      // no failure: no budget, no blame
    HostIndex host{};                          // host_lost
    Instant since{};                           // host_lost: when it was last heard
  };
  void disrupt(const Disruption& disruption);
  [[nodiscard]] bool may_go_on_without_it(const Disruption& disruption) const;
  void go_on_without_it(const Disruption& disruption);
  void tell_failed_as_well(const Worker& worker, const std::string& last_words);
  void worker_failed(WorkerId id);
  void worker_disrupts(WorkerId id);
  [[nodiscard]] bool cause_may_follow(const Worker& victim) const;
  void cause_is_known();
  [[nodiscard]] std::vector<Failure> failures() const;
  std::optional<Disruption> why_unfinished();
  [[nodiscard]] RestartPolicy::Question question_of(const Disruption& disruption) const;
  void restart_begins(Instant since);
  void count_cause(const Disruption& disruption);
  [[nodiscard]] Follows what_follows(const Disruption& disruption) const;
  [[nodiscard]] bool was_up() const;
  [[nodiscard]] bool in_place_now() const;
  [[nodiscard]] std::vector<const Worker*> staying() const;
  void kill_late_starters(Instant due);
  void give_up_those_who_withstand(Instant due, bool ending);
  void output_is_late(Instant due);
  void not_all_swept(Instant due);
  [[nodiscard]] bool survivors_complete(int size) const;
  void begin_draining(const Disruption& disruption);
  void condemn_members();
  void drain_step();
  void after_drain();
  bool blame();
  void back_off(bool somebody_gone);
  std::optional<notice::HostRests> rest_of(HostIndex host);
  void tell_generation();
  void consider_change();
  void settled();
  [[nodiscard]] Disruption describe_change(bool come, bool leave) const;
  [[nodiscard]] std::set<WorkerId> beyond_slots() const;
  [[nodiscard]] std::set<WorkerId> leavers() const;
  [[nodiscard]] std::pair<bool, bool> change_needed() const;
  void change_world(const Disruption& change, bool come, bool leave);
  void dismiss(WorkerId id);
  void dismiss_leavers();
  void give_time_to_leave(WorkerId id, Duration time);
  [[nodiscard]] bool only_newcomers_leave() const;
  [[nodiscard]] std::vector<WorkerId> asked_to_leave() const;
  void await_leavers();
  void grace_of_leavers_over();

  // the end of an in-place program
  [[nodiscard]] bool somebody_finished_well() const { return world_.counts().ended_well > 0; }
  [[nodiscard]] bool program_ends() const;
  void finished_well();
  void finish_without(const Disruption& disruption);
  void finish_alone(const Disruption& disruption);
  [[nodiscard]] bool others_have_asked();
  [[nodiscard]] bool may_go_on_without();
  void await_others(const std::optional<Cause>& cause);
  void end_unfinished(int least = 0);  // of ranks, where too few are left

  // newcomers
  [[nodiscard]] bool grows_later() const;
  [[nodiscard]] bool takes_newcomers() const;
  [[nodiscard]] int least_size() const;
  [[nodiscard]] int most_size() const;
  [[nodiscard]] int held_by_resting() const;
  [[nodiscard]] std::vector<const Worker*> joining(int survivors, int size) const;
  [[nodiscard]] bool newcomers_are_ready(int size) const;
  [[nodiscard]] bool all_newcomers_wait() const;
  [[nodiscard]] bool has_ready_newcomer(HostIndex host) const;
  [[nodiscard]] bool growth_waits() const;
  [[nodiscard]] bool newcomers_failed(const Disruption& disruption) const;
  void go_on_without_newcomers(const Disruption& disruption);
  void order_newcomers();
  void plan_newcomers(int size);
  [[nodiscard]] bool newcomers_have_taken_ranks() const;
  void newcomers_may_come();
  void review_newcomers();
  void newcomer_ended(WorkerId id, const std::string& last_words);
  void newcomer_is_lost(const Worker& worker, Cause why, bool finished);
  void newcomers_back_off();
  void newcomers_due();
  [[nodiscard]] std::optional<Instant> newcomers_start_at() const;
  void watch_newcomers();

  // members
  [[nodiscard]] bool world_stands() const;
  void reform_if_all_wait();
  void await_askers();
  void askers_late();
  void members_late();
  [[nodiscard]] std::pair<Duration, Limit> time_to_load() const;

  void enter(Phase next);
  [[nodiscard]] static bool belongs(Deadline deadline, Phase phase);
  // Ends the job because of `kind`: drains the workers, or closes at once when there are none.
  void end_because(Outcome::Kind kind);
  void end_instead(Outcome::Kind kind);
  void end_a_success(const UserSignal& event);
  void abandon_stuck(HostIndex host, const std::string& why);  // as an ExitStatus tells it
  void give_up_stuck(HostIndex host, Instant due);
  void drain(Outcome::Kind kind);
  void kill_now(bool grace_is_over = false);
  void tell_connecting();
  void blame_lost_exchange();
  [[nodiscard]] Cause what_ended_it() const;
  void tell_ending();
  void tell_leftovers(HostIndex host, std::uint32_t count, const std::vector<std::string>& names,
                      bool killed);
  void after_worker_change();
  void slot_is_free();
  void count_ignored_exits();
  void close();
  void finish_if_all_gone();
  void unplaced_are_gone(HostIndex host);
  void leave_at_once();
  void lose_workers_of(HostIndex host, const std::string& reason, bool closed = false);
  void tell_lost_host(HostIndex host, const std::string& reason, bool had_ranks);
  void settle_verdict();
  void tell_time_of_end();
  void count_lost_time();
  void inspection_over();
  void ignore(const char* what, const char* why);
  void tell(Notice notice) { act(Tell{std::move(notice)}); }
  void arm(Deadline deadline, Instant at);
  void put_off(Deadline deadline, Instant due, Instant at);
  void disarm(Deadline deadline);
  std::optional<Instant> news_come(HostIndex host, Instant due);
  void hurry_the_late();
  [[nodiscard]] bool elastic() const { return spec_.elastic.enabled(); }
  [[nodiscard]] bool asked_to_end(const WorkerExited& event) const;
  [[nodiscard]] bool ended_by_us(const Worker& worker, const WorkerExited& event) const;
  [[nodiscard]] std::string host_name(HostIndex host) const;
  [[nodiscard]] HostRef named(HostIndex host) const { return {host, host_name(host)}; }
  [[nodiscard]] RankRef who(const Worker& worker) const;
  [[nodiscard]] RankRef who(const Failure& failure) const;
  [[nodiscard]] std::optional<Rank> culprit() const;
  void act(JobAction action) { actions_.push_back(std::move(action)); }

  const JobSpec spec_;  // as it was at the start: hosts that came later are in roster_ alone
  Roster roster_;
  World world_;
  Phase phase_ = Phase::gathering;
  Instant now_{}, began_{};
  std::map<Deadline, Instant> armed_;  // and when each was due first
  LateNews late_;
  Ending ending_;
  struct ExchangeLoss {
    Generation generation;
    Instant at{};
    std::string reason;
  };
  std::optional<ExchangeLoss> exchange_lost_;  // the last one
  Outcome verdict_;
  JobActions actions_;

  RestartPolicy restarts_;
  // After KILL a process can only be held up by the kernel (a dead disk, a dying driver).
  static constexpr Duration after_kill = seconds(5);
  // When an end takes longer, the user is told why it comes and what is waited for.
  static constexpr Duration explain_after = seconds(1);
  // A world that has run for so long is no crash loop, whatever its program tells of itself.
  static constexpr Duration proves_itself = seconds(60);
  // Whom ranks have lost may take so long to end after it closed its connections.
  static constexpr Duration dies_later = seconds(2);

  Then then_ = Then::end;
  bool swept_ = false;                     // agents were asked to clear up after the generation
  bool survivors_stay_ = false;            // the next world is formed around those who live; until it has met
  bool blaming_ = false;                   // the drain was not planned
  bool spared_ = false;                    // it is for those alone that were waited for
  bool somebody_left_well_ = false;        // members had finished when the world was formed around the others
  std::optional<RankRef> finished_;        // the first of those
  std::optional<Instant> finish_by_;       // the others must have finished, or ask for another world
  std::optional<Disruption> owed_;         // what a world without them has to pay for
  std::vector<Failure> failed_before_;     // of former members, and no world has met without them
  std::vector<RankRef> had_not_finished_;  // former members, since the latest world began
  Generation begun_generation_{};          // the latest that members were in
  bool settle_over_ = false;               // cooling has waited for hosts that may come
  bool state_exists_ = false;              // a world has met since all were lost the last time
  int kept_ = 0;                           // survivors in the current world
  std::optional<Cause> changed_by_;        // why the next generation forms, for its line
  std::optional<WorldBroken> broken_;      // the members gave it up, and may end, or ask for their next place
  Disruption planned_change_;              // what the members were told
  Disruption disruption_;                  // the latest, planned or not
  std::optional<Failure> last_cause_;      // the worker that is to blame for the latest failure
  std::optional<Disruption> unfinished_;   // why members that did not survive the drain had not finished
  Generation reported_{};                  // the latest that the user was told of
  std::map<std::string, int> errors_told_;  // hosts that failed so, since the latest world was planned
  int slots_told_ = -1;                     // while hosts are gathered
  bool met_ = false;                        // all members are in the rendezvous
  Instant world_ordered_at_{}, broken_at_{}, first_asked_{};  // the last: one wants another world, not all
  std::optional<Duration> first_took_;            // until the members of the first world that met were there
  bool world_elastic_ = false, horovod_ = false;  // ... and can be in the next world without a new process
  bool announced_ = false;                        // members were told that the world is about to change
  bool newcomers_given_up_ = false;               // one has finished: there was nothing for it to do
  int newcomers_failed_ = 0;                      // in a row, before any has joined
  WorkerId last_newcomer_that_failed_{};          // or one that was there then
  Instant newcomers_from_{};                      // none is started before
  std::set<WorkerId> unplaced_;                   // they live when the job is closed, and are no members
  std::optional<std::string> discovery_problem_;  // nothing: it has not answered yet; empty: it has
  Inspection inspection_;
};

}  // namespace trainrun::core
