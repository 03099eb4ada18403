// The job's end: success, or the first cause. Pure: from what is known of every worker to one verdict.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/base/exit_status.h"
#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/core/cause.h"

namespace trainrun::core {

// Of a rank that ended with code 0, as ExitStatus::deserted says it.
constexpr std::string_view without_hvd_init = "without hvd.init, where other ranks wait for it";

// What is known of a worker that did not end well by itself. Those that we ended are not failures.
struct Failure {
  WorkerId worker;
  Rank rank;
  HostIndex host;
  std::uint32_t pid = 0;
  ExitStatus status;
  Instant at{};
  Duration error{};
  bool lost_peer = false;  // its last words say that a peer of it went away
  std::string out_of_memory{};
  bool after_signal = false;  // it had been asked to end, and ended in a way of its own
  std::string last_words{};   // the last line on its stderr

  template <class V>
  void fields(V& v) {
    v("worker", worker), v("rank", rank), v("host", host), v("pid", pid), v("status", status), v("at", at),
        v("error", error), v("lost_peer", lost_peer), v("out_of_memory", out_of_memory),
        v("after_signal", after_signal), v("last_words", last_words);
  }
};

// Index of the failure that led to the others; `failures` is not empty. Who lost a peer, or failed only when
// it was asked to end, is a victim if anybody else is there. Of the others the earliest is the cause, but for
// one: a death that no peer can bring about (SIGKILL, SIGSEGV) may be noticed by peers sooner than by the
// agent there, whose kernel still clears up after it, and clocks of hosts agree only within each `error`.
std::size_t first_cause(const std::vector<Failure>& failures);

// A program's last lines read like those of one whose peer went away (Gloo, NCCL, torch, MPI, our own comm):
// it is a victim rather than a cause.
bool sounds_like_lost_peer(const std::vector<std::string>& last_words);

// What became of the others.
struct Tally {
  int finished = 0;     // exit 0 by themselves: nobody had asked them to end
  int failed = 0;       // ended badly by themselves
  int raised = 0;       // ended by our TERM on their way out: they had printed an exception
  int terminated = 0;   // ended by our TERM, or by that of a batch system which we got as well
  int killed = 0;       // needed KILL
  int lost = 0;         // on a host that went away
  int left = 0;         // for their agents to end, since the user would not wait
  int not_started = 0;  // never ran

  template <class V>
  void fields(V& v) {
    v("finished", finished), v("failed", failed), v("raised", raised), v("terminated", terminated),
        v("killed", killed), v("lost", lost), v("left", left), v("not_started", not_started);
  }
};

struct Outcome {
  enum class Kind : std::uint8_t {
    success,
    worker_failed,
    host_lost,
    hosts_failed,
    port_refused,
    user_signal,
    output_closed,
    timed_out,
    hung,           // no sign of life of any rank for --hang-timeout
    exchange_lost,  // what MPI ranks exchange by broke, and they ended by that
    no_hosts,       // too few hosts for the smallest world, for --elastic-timeout
    mpi_mixed,      // programs of two MPIs
    unfinished      // some ranks finished, and the others could not go on without them
  };

  Kind kind = Kind::success;
  int exit_code = 0;
  Generation generation;
  std::optional<Failure> cause{};         // worker_failed
  std::vector<Failure> also_failed{};     // worker_failed: by themselves, in the order of ranks
  std::vector<std::uint32_t> finished{};  // worker_failed: those of others.finished, in order
  HostIndex host{};                       // host_lost
  std::vector<Rank> ranks{};              // host_lost: those that it had
  std::vector<HostIndex> also_lost{};     // host_lost: in the same moment, after that one; or ignored before
  bool gave_us_up = false;                // host_lost: the launcher was stopped for too long
  // host_lost, port_refused, hung, exchange_lost, no_hosts, mpi_mixed, unfinished; worker_failed: what
  // the ranks reported, if it is not that this one failed
  std::optional<Cause> why{};
  std::vector<std::pair<HostIndex, Error>> host_errors{};  // hosts_failed: every one of them
  int signal = 0;                                          // user_signal
  bool by_ctl = false;                                     // user_signal: `trainrun ctl end`
  Duration after{};                                        // Begin: when what ended the job happened
  Duration took{};                                         // user_signal: of `after`, since the signal came
  Tally others{};
  int unfinished = 0;            // ranks that we ended although others had finished
  std::uint32_t leftovers = 0;   // processes that outlived their workers and were ended by us
  bool out_of_restarts = false;  // the cause would have been survived, had --reset-limit allowed it

  // An elastic job's history.
  int restarts = 0;                                  // after failures
  std::vector<std::pair<CauseKind, int>> causes{};   // of these failures, and how often
  std::vector<std::pair<CauseKind, int>> changes{};  // that were no failures, and how often
  Duration lost_time{};  // from failures until the next generation ran, or none did

  template <class V>
  void fields(V& v) {
    v("kind", kind), v("exit_code", exit_code), v("generation", generation), v("cause", cause),
        v("also_failed", also_failed), v("finished", finished), v("host", host), v("ranks", ranks),
        v("also_lost", also_lost), v("gave_us_up", gave_us_up), v("why", why), v("host_errors", host_errors),
        v("signal", signal), v("by_ctl", by_ctl), v("after", after), v("took", took), v("others", others),
        v("unfinished", unfinished), v("leftovers", leftovers), v("out_of_restarts", out_of_restarts),
        v("restarts", restarts), v("causes", causes), v("changes", changes), v("lost_time", lost_time);
  }
};

std::string_view to_string(Outcome::Kind kind);

// Who ended the job, of user_signal: "SIGTERM", "ctl end".
std::string who_asked(int signal, bool by_ctl);

// What the launcher exits with. Hosts that failed in different ways count as unreachable.
int exit_code_of(const Outcome& outcome);

}  // namespace trainrun::core
