// What the brain tells: a closed list of facts. They become words for people in launcher/output/words, and
// lines for machines in launcher/output/event_line; the names and fields here are what trainrun-events(7)
// lists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/base/compiled_once.h"
#include "launcher/base/error.h"
#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/core/cause.h"
#include "launcher/core/job_phase.h"
#include "launcher/core/odd_one_out.h"
#include "launcher/core/record.h"

namespace trainrun::core {

// How a request for the job's end is answered.
enum class EndAnswer : std::uint8_t { ends_ranks, ends_job, ends_already, kills, waits_for_output };
std::string_view to_string(EndAnswer answer);

// What follows from a failure.
// others_wait: too few are left, until another one has come in its place.
enum class Follows : std::uint8_t { tries_again, all_start_anew, all_go_on, others_go_on, others_wait };
std::string_view to_string(Follows follows);

// By which ranks of a program find each other. none: by nothing, as --compat says.
enum class MpiService : std::uint8_t { none, pmi, pmix };
std::string_view to_string(MpiService service);

struct HostFailure {
  HostRef host;
  Error error;
  template <class V>
  void fields(V& v) {
    host.fields(v), v("error", error);
  }
};

// A host that is not there, and may come.
struct AwaitedHost {
  enum class What : std::uint8_t { dialled, left, rests, retried };
  HostRef host;
  What what = What::dialled;
  Duration in{};  // until it is tried; of dialled none
  template <class V>
  void fields(V& v) {
    host.fields(v), v("what", what), v("in", in);
  }
};
std::string_view to_string(AwaitedHost::What what);

namespace notice {

using core::operator==;

// ---- for whoever follows the machine itself, with -v

struct PhaseChanged {
  JobPhase from = JobPhase::gathering, to = JobPhase::gathering;
  TRAINRUN_RECORD("phase changed") { v("from", from), v("to", to); }
};
// Something came that nothing follows from.
struct Ignored {
  std::string what, why;
  TRAINRUN_RECORD("ignored") { v("what", what), v("why", why); }
};

// ---- generations

struct GenerationFormed {
  Generation generation;
  int ranks = 0, hosts = 0;
  std::optional<Cause> cause{};    // of the change; the first generation has none
  int survivors = 0;               // whose state is kept
  std::optional<Duration> took{};  // since the failure
  TRAINRUN_RECORD("generation formed") {
    v("generation", generation), v("ranks", ranks), v("hosts", hosts), v("cause", cause);
    v("survivors", survivors), v("took", took);
  }
};
struct Restarting {
  Generation generation;  // that ends
  Cause cause;
  bool as_well = false;  // the same restart as for an earlier failure
  Follows follows = Follows::all_start_anew;
  int restart = 0;     // in the job; within the window, if it is not `as_well`
  int limit = 0;       // so many are allowed ...
  Duration window{};   // ... within this
  bool was_up = true;  // the generation ran before
  TRAINRUN_RECORD("restarting") {
    v("generation", generation), v("cause", cause), v("as_well", as_well), v("follows", follows);
    v("restart", restart), v("limit", limit), v("window", window), v("was_up", was_up);
  }
};
// Ranks that are started while the world goes on without them.
struct NewcomersStart {
  std::vector<RankRef> ranks;
  TRAINRUN_RECORD("newcomers start") { v("ranks", ranks); }
};
// One of those will not come.
struct NewcomerFailed {
  Cause cause;
  int ranks = 0;                    // of the world, which goes on without it; 0: it is being formed
  std::optional<Duration> again{};  // until another is started in its place; nothing: it has finished
  bool rests = false;               // its host does for it: another one takes its place, if there is one
  TRAINRUN_RECORD("newcomer failed") {
    v("cause", cause), v("ranks", ranks), v("again", again), v("rests", rests);
  }
};
// Those that were started and have not joined are ended: they have no place any more.
struct NewcomersLeave {
  std::vector<RankRef> ranks;
  bool program_ends = false;  // else their hosts have no slot for them
  TRAINRUN_RECORD("newcomers leave") { v("ranks", ranks), v("program_ends", program_ends); }
};
// Members have finished, and the others must finish as well or ask for another world; without a cause, one of
// them waits for those that have.
struct Finishing {
  RankRef finished;
  std::optional<Cause> cause{};
  int left = 0;
  Duration wait{};
  TRAINRUN_RECORD("finishing") { finished.fields(v), v("cause", cause), v("left", left), v("wait", wait); }
};
// A planned change overtook the generation.
struct GenerationSkipped {
  Generation generation;
  Cause cause;
  TRAINRUN_RECORD("generation skipped") { v("generation", generation), v("cause", cause); }
};
struct BackingOff {
  Duration wait{};
  bool others_go_on = false;  // who is started for those that failed waits alone
  TRAINRUN_RECORD("backing off") { v("wait", wait), v("others_go_on", others_go_on); }
};
// No rank has survived that held the program's state.
struct StateLost {
  TRAINRUN_RECORD("state lost") {}
};

// ---- hosts

struct Gathering {
  int slots = 0, wanted = 0;
  Duration wait{};  // at most
  Limit limit = Limit::start_timeout;
  TRAINRUN_RECORD("gathering") { v("slots", slots), v("wanted", wanted), v("wait", wait), v("limit", limit); }
};
// A start in which some hosts do not answer: told once.
struct Connecting {
  std::vector<std::string> hosts;
  Duration waited{}, wait{};  // so long, and so much longer at most
  Limit limit = Limit::start_timeout;
  TRAINRUN_RECORD("connecting") {
    v("hosts", hosts), v("waited", waited), v("wait", wait), v("limit", limit);
  }
};
struct WaitingForHosts {
  int slots = 0, least = 0;
  std::vector<AwaitedHost> awaited{};
  Duration wait{};  // at most, --elastic-timeout
  TRAINRUN_RECORD("waiting for hosts") {
    v("slots", slots), v("least", least), v("awaited", awaited), v("wait", wait);
  }
};
struct HostLost {
  HostRef host;
  std::string reason;
  bool as_well = false;  // part of a failure that is being dealt with
  bool had_ranks = true;
  std::vector<RankRef> newcomers{};  // that were started there, and had not joined
  TRAINRUN_RECORD("host lost") {
    host.fields(v), v("reason", reason), v("as_well", as_well), v("had_ranks", had_ranks);
    v("newcomers", newcomers);
  }
};
struct HostLostAtEnd {
  HostRef host;
  std::string reason;
  TRAINRUN_RECORD("host lost at end") { host.fields(v), v("reason", reason); }
};
struct HostsFailed {
  std::vector<HostFailure> failures;
  bool again = true;  // they are tried again
  TRAINRUN_RECORD("hosts failed") { v("failures", failures), v("again", again); }
};
// More hosts fail in a way that was told often enough.
struct MoreHostsFail {
  TRAINRUN_RECORD("more hosts fail") {}
};
// Its cores or GPUs do not suffice for its slots.
struct HostUnsuited {
  HostRef host;
  Error error;
  TRAINRUN_RECORD("host unsuited") { host.fields(v), v("error", error); }
};
struct HostRests {
  HostRef host;
  Duration rest{};
  bool again = false;  // it had rested lately
  int failures = 0;    // so many of its ranks failed ...
  Duration window{};   // ... within this
  TRAINRUN_RECORD("host rests") {
    host.fields(v), v("rest", rest), v("again", again), v("failures", failures), v("window", window);
  }
};
struct HostLeaves {
  HostRef host;
  std::string reason;    // its own word ...
  bool by_user = false;  // ... or the user removed it
  TRAINRUN_RECORD("host leaves") { host.fields(v), v("reason", reason), v("by_user", by_user); }
};
struct HostsFound {
  std::vector<std::string> hosts;
  TRAINRUN_RECORD("hosts found") { v("hosts", hosts); }
};
struct HostsUnlisted {
  std::vector<std::string> hosts;
  std::optional<int> kept_for{};  // they stay: without them the smallest world, of so many, could not be held
  bool hand_over = false;         // they stay until others hold the program's state
  TRAINRUN_RECORD("hosts unlisted") { v("hosts", hosts), v("kept_for", kept_for), v("hand_over", hand_over); }
};
// Hosts have fewer slots now, and their ranks stay, as in HostsUnlisted.
struct SlotsKept {
  std::vector<HostSlots> hosts;
  int kept_for = 0;
  TRAINRUN_RECORD("slots kept") { v("hosts", hosts), v("kept_for", kept_for); }
};

// ---- ranks

// Of hosts that agree the first is named.
struct MpiFound {
  MpiPart what;
  MpiService service = MpiService::none;
  std::string library;  // by which PMIx is served there
  TRAINRUN_RECORD("mpi found") { what.fields(v), v("service", service), v("library", library); }
};
// One of the two is guessed at least, so it may be well.
struct MpiMixed {
  MpiPart first, second;
  TRAINRUN_RECORD("mpi mixed") { v("first", first), v("second", second); }
};
// --on-failure ignore: so many of the world's ranks are left.
struct FailureIgnored {
  Cause cause;
  int left = 0, ranks = 0;
  TRAINRUN_RECORD("failure ignored") { v("cause", cause), v("left", left), v("ranks", ranks); }
};
struct MpiCannotMeet {
  Generation generation;
  std::string reason;
  TRAINRUN_RECORD("mpi cannot meet") { v("generation", generation), v("reason", reason); }
};
// For whom the others wait in a function of PyTorch's or Horovod's; all of them: nobody is there.
struct AbsentFromStore {
  RankRef who;
  std::string last_words;
  bool ended = false;  // with code 0
  template <class V>
  void fields(V& v) {
    who.fields(v), v("last_words", last_words), v("ended", ended);
  }
};
struct RanksAbsent {
  Generation generation;
  int ranks = 0;  // in the world
  std::vector<AbsentFromStore> absent;
  std::string waits_in{};
  std::optional<Duration> ended_in{};  // nothing: they are waited for without a limit
  TRAINRUN_RECORD("ranks absent") {
    v("generation", generation), v("ranks", ranks), v("absent", absent), v("waits_in", waits_in);
    v("ended_in", ended_in);
  }
};
struct RanksSilent {
  Generation generation;
  Duration silence{};
  TRAINRUN_RECORD("ranks silent") { v("generation", generation), v("silence", silence); }
};
// One of them was heard while they were looked at: the job goes on.
struct RanksAlive {
  Generation generation;
  TRAINRUN_RECORD("ranks alive") { v("generation", generation); }
};
struct RankInspected {
  RankRef who;
  std::string evidence;
  TRAINRUN_RECORD("rank inspected") { who.fields(v), v("evidence", evidence); }
};
// Most often the others wait for it.
struct RankDiffers {
  OddOne odd;
  TRAINRUN_RECORD("rank differs") { odd.fields(v); }
};

// ---- the end

struct EndRequested {
  int signal = 0;
  bool by_ctl = false;
  EndAnswer answer = EndAnswer::ends_ranks;
  int ranks = 0;     // ends_ranks: that live
  Duration grace{};  // ends_ranks: until SIGKILL; waits_for_output: for how long
  TRAINRUN_RECORD("end requested") {
    v("signal", signal), v("by_ctl", by_ctl), v("answer", answer), v("ranks", ranks), v("grace", grace);
  }
};
struct LeavingAtOnce {
  TRAINRUN_RECORD("leaving at once") {}
};
// The end takes so long that it is explained.
struct Ending {
  Cause cause;
  int ranks = 0;  // that live; 0: only what they have started
  Duration kill_in{};
  bool unplaced = false;  // the ranks have no place in the world, and have not heard of its end
  TRAINRUN_RECORD("ending") {
    v("cause", cause), v("ranks", ranks), v("kill_in", kill_in), v("unplaced", unplaced);
  }
};
struct Killing {
  std::optional<Cause> cause{};  // where it was not told before
  int ranks = 0;
  Duration after{};                        // since they were asked ...
  int signal = 0;                          // ... by this
  std::optional<Duration> longer_grace{};  // to advise: where the grace was over, once
  TRAINRUN_RECORD("killing") {
    v("cause", cause), v("ranks", ranks), v("after", after), v("signal", signal);
    v("longer_grace", longer_grace);
  }
};
// The last output of ranks that have ended waits for its reader.
struct OutputUnread {
  int ranks = 0;
  bool given_up = true;  // else it is waited for
  TRAINRUN_RECORD("output unread") { v("ranks", ranks), v("given_up", given_up); }
};
struct ProcessesStuck {
  HostRef host;
  std::optional<Duration> silent{};  // the host says nothing: they may have ended
  TRAINRUN_RECORD("processes stuck") { host.fields(v), v("silent", silent); }
};
struct ClearUpUnconfirmed {
  HostRef host;
  bool given_up = false;  // between two generations: the host is given up
  TRAINRUN_RECORD("clear-up unconfirmed") { host.fields(v), v("given_up", given_up); }
};
// What the host tells comes late, as behind output on a slow link: what is due there is waited for.
struct NewsLate {
  HostRef host;
  Duration late{};
  Duration longest{};     // that is waited for it
  bool given_up = false;  // it was waited for so long: the host is given up
  TRAINRUN_RECORD("news late") {
    host.fields(v), v("late", late), v("longest", longest), v("given_up", given_up);
  }
};
// What ranks left in the background was ended.
struct Leftovers {
  HostRef host;
  std::vector<Rank> ranks;  // of the host
  std::uint32_t processes = 0;
  std::vector<std::string> names{};  // of their programs; they may be anything
  bool killed = false;               // SIGKILL was needed
  TRAINRUN_RECORD("leftovers") {
    host.fields(v), v("ranks", ranks), v("processes", processes), v("names", names), v("killed", killed);
  }
};

}  // namespace notice

struct Notice
    : std::variant<notice::PhaseChanged, notice::Ignored, notice::GenerationFormed, notice::Restarting,
                   notice::NewcomersStart, notice::NewcomerFailed, notice::NewcomersLeave, notice::Finishing,
                   notice::GenerationSkipped, notice::BackingOff, notice::StateLost, notice::Gathering,
                   notice::Connecting, notice::WaitingForHosts, notice::HostLost, notice::HostLostAtEnd,
                   notice::HostsFailed, notice::MoreHostsFail, notice::HostUnsuited, notice::HostRests,
                   notice::HostLeaves, notice::HostsFound, notice::HostsUnlisted, notice::SlotsKept,
                   notice::MpiFound, notice::MpiMixed, notice::FailureIgnored, notice::MpiCannotMeet,
                   notice::RanksAbsent, notice::RanksSilent, notice::RanksAlive, notice::RankInspected,
                   notice::EndRequested, notice::LeavingAtOnce, notice::Ending, notice::Killing,
                   notice::OutputUnread, notice::ProcessesStuck, notice::ClearUpUnconfirmed,
                   notice::Leftovers, notice::RankDiffers, notice::NewsLate> {
  TRAINRUN_COMPILED_ONCE(Notice)
};

// For whoever follows the machine itself: nobody else wants to see it.
bool is_detail(const Notice& notice);

}  // namespace trainrun::core
