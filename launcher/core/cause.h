// Why something happened to the job: what notices, the end of a generation and the end of the job share.
// Facts alone; what people read is made of them in launcher/output/words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/base/compiled_once.h"
#include "launcher/base/error.h"
#include "launcher/base/exit_status.h"
#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/core/record.h"
#include "launcher/wire/facts.h"

namespace trainrun::core {

// A host as it is told: its place in the job's list, and the name that the user gave it.
struct HostRef {
  HostIndex index;
  std::string name;
  template <class V>
  void fields(V& v) {
    v("host", name), v("host_index", index);
  }
};
// A rank as it is told; pid 0: it never ran.
struct RankRef {
  Rank rank;
  HostRef host;
  WorkerId worker{};
  std::uint32_t pid = 0;
  template <class V>
  void fields(V& v) {
    v("rank", rank), host.fields(v), v("worker", worker), v("pid", pid);
  }
};
// A program of the job, counted from 0, and whose MPI it is on one of its hosts.
struct MpiPart {
  std::uint32_t part = 0;
  std::string program;
  HostRef host;
  wire::MpiFamily family = wire::MpiFamily::none;
  bool guessed = false;
  template <class V>
  void fields(V& v) {
    v("part", part), v("program", program), host.fields(v), v("family", family), v("guessed", guessed);
  }
};
struct HostSlots {
  HostRef host;
  int slots = 0;
  template <class V>
  void fields(V& v) {
    host.fields(v), v("slots", slots);
  }
};

// What sets the time that something may take.
enum class Limit : std::uint8_t {
  start_timeout,
  elastic_timeout,
  start_timeout_times_ten,
  twice_the_first_start
};
std::string_view to_string(Limit limit);

// Failures and changes are counted by these.
enum class CauseKind : std::uint8_t {
  rank_failed,
  host_lost,
  no_port,
  world_broken,
  member_missing,
  hung,
  hosts_left,
  hosts_came,
  slots_changed,
  ranks_ready,
  asked_for,
  rank_finished
};
std::string_view to_string(CauseKind kind);

namespace cause {

using core::operator==;

struct JobOver {
  TRAINRUN_RECORD("job over") {}
};
struct RankFailed {
  RankRef who;
  ExitStatus status;
  std::string last_words{};  // the last line on its stderr; empty where nobody is to see it
  TRAINRUN_RECORD("rank failed") { who.fields(v), v("status", status), v("last_words", last_words); }
};
// A rank failed, and is not known any more.
struct SomeRankFailed {
  TRAINRUN_RECORD("some rank failed") {}
};
struct HostLost {
  HostRef host;
  std::string reason;
  TRAINRUN_RECORD("host lost") { host.fields(v), v("reason", reason); }
};
// Why a host was lost, where everybody knows which.
struct LinkLost {
  std::string reason;
  TRAINRUN_RECORD("link lost") { v("reason", reason); }
};
struct PortRefused {
  Error error;
  TRAINRUN_RECORD("port refused") { v("error", error); }
};
// What ranks of MPI exchange by is broken.
struct ExchangeLost {
  std::string reason;
  TRAINRUN_RECORD("exchange lost") { v("reason", reason); }
};
// The members gave the world up; without a reason, all of them left it. `ranks`: those that did not take
// part, as far as the members know.
struct WorldBroken {
  std::optional<std::string> reason;
  std::vector<Rank> ranks{};
  TRAINRUN_RECORD("world broken") { v("reason", reason), v("ranks", ranks); }
};
// These did not come to the generation; none: a member that ended.
struct MembersMissing {
  std::vector<RankRef> late;
  Generation generation;
  Duration waited{};
  Limit limit = Limit::start_timeout;
  TRAINRUN_RECORD("members missing") {
    v("late", late), v("generation", generation), v("waited", waited), v("limit", limit);
  }
};
// A rank finished, and these, which had not, cannot go on without it; none: that is not decided yet.
struct RankFinished {
  RankRef who;
  std::vector<RankRef> unfinished{};
  int least = 0;  // of --min-np, where fewer are left
  TRAINRUN_RECORD("rank finished") { who.fields(v), v("unfinished", unfinished), v("least", least); }
};
// One rank does something else than all others, of whom each does the same.
struct OddRank {
  RankRef who;
  std::string does, others_do;
  std::size_t others = 0;
  template <class V>
  void fields(V& v) {
    who.fields(v), v("does", does), v("others", others), v("others_do", others_do);
  }
};
struct Hung {
  Duration silence{};
  std::vector<RankRef> stopped{};  // by a signal
  std::vector<RankRef> absent{};   // from where all others wait
  std::optional<OddRank> odd{};
  TRAINRUN_RECORD("hung") {
    v("silence", silence), v("stopped", stopped), v("absent", absent), v("odd", odd);
  }
};
struct TooFewHosts {
  Duration waited{};
  Limit limit = Limit::elastic_timeout;
  std::optional<Duration> discovery_silent{};  // it has run for so long without an answer
  std::optional<std::string> discovery_problem{};
  bool discovery_lists_none = false;
  TRAINRUN_RECORD("too few hosts") {
    v("waited", waited), v("limit", limit), v("discovery_silent", discovery_silent);
    v("discovery_problem", discovery_problem), v("discovery_lists_none", discovery_lists_none);
  }
};
// All empty: slots became free.
struct HostsChanged {
  std::vector<std::string> left{}, came{};
  std::vector<HostSlots> resized{};
  TRAINRUN_RECORD("hosts changed") { v("left", left), v("came", came), v("resized", resized); }
};
// Newcomers, which have called init now.
struct RanksReady {
  std::vector<RankRef> ranks;
  TRAINRUN_RECORD("ranks ready") { v("ranks", ranks); }
};
struct HostLeaves {
  HostRef host;
  std::string reason;    // its own word ...
  bool by_user = false;  // ... or the user removed it
  TRAINRUN_RECORD("host leaves") { host.fields(v), v("reason", reason), v("by_user", by_user); }
};
// A host was lost, and with it these ranks.
struct RanksLost {
  HostRef host;
  std::vector<Rank> ranks;
  std::variant<LinkLost, HostLost, HostsChanged, HostLeaves> why;
  TRAINRUN_RECORD("ranks lost") { host.fields(v), v("ranks", ranks), v("why", why); }
};
// Hosts of a world that nobody was started in.
struct ItsHostsLeave {
  TRAINRUN_RECORD("its hosts leave") {}
};
struct RestartAsked {
  std::optional<Rank> rank{};  // of one rank alone
  TRAINRUN_RECORD("restart asked") { v("rank", rank); }
};
struct StopAsked {
  Rank rank;
  TRAINRUN_RECORD("stop asked") { v("rank", rank); }
};
struct EndAsked {
  int signal = 0;
  bool by_ctl = false;
  TRAINRUN_RECORD("end asked") { v("signal", signal), v("by_ctl", by_ctl); }
};
// Programs of two MPIs: they cannot be one world.
struct MpiMixed {
  MpiPart first, second;
  TRAINRUN_RECORD("mpi mixed") { v("first", first), v("second", second); }
};
struct OutputClosed {
  TRAINRUN_RECORD("output closed") {}
};
struct TimeLimit {
  Duration limit{};
  TRAINRUN_RECORD("time limit") { v("limit", limit); }
};

}  // namespace cause

struct Cause : std::variant<cause::JobOver, cause::RankFailed, cause::SomeRankFailed, cause::HostLost,
                            cause::LinkLost, cause::PortRefused, cause::ExchangeLost, cause::WorldBroken,
                            cause::MembersMissing, cause::Hung, cause::TooFewHosts, cause::HostsChanged,
                            cause::HostLeaves, cause::RanksLost, cause::ItsHostsLeave, cause::RestartAsked,
                            cause::StopAsked, cause::EndAsked, cause::OutputClosed, cause::TimeLimit,
                            cause::MpiMixed, cause::RankFinished, cause::RanksReady> {
  TRAINRUN_COMPILED_ONCE(Cause)
};

}  // namespace trainrun::core
