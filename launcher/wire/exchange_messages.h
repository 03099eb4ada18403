// The messages by which ranks exchange bytes over their agents and the launcher; see rendezvous/exchange.h
// for what becomes of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/base/id.h"

namespace trainrun::wire {

#define TRAINRUN_MESSAGE(number)               \
  static constexpr std::uint8_t type = number; \
  template <class V>                           \
  void fields([[maybe_unused]] V& v)

// Ranks may speak one dialect after another: each has exchanges of its own.
enum class Dialect : std::uint8_t { pmi = 1, pmix };
constexpr bool is_known(Dialect dialect) { return dialect == Dialect::pmi || dialect == Dialect::pmix; }

// What ranks of one generation exchange, a message a host each way (rendezvous/exchange.h). A Gather is one
// host's part, sent when all of its ranks that take part are there; Gathered brings every host's, in the
// order of hosts, in as many messages as frames need. GatherFailed ends every exchange of the generation, for
// ever.
struct Gather {
  Generation generation;
  std::vector<Rank> group;     // who takes part, ascending; empty: the whole world
  std::uint32_t sequence = 0;  // of the group's exchanges, from 1
  std::string bytes;           // at most gather_limit
  std::vector<Rank> missing;   // have ended here, and will never take part: it fails for all
  Dialect dialect = Dialect::pmi;
  TRAINRUN_MESSAGE(30) {
    v("generation", generation), v("group", group), v("sequence", sequence), v("bytes", bytes);
    v("missing", missing), v("dialect", dialect);
  }
};
constexpr std::size_t gather_limit = 4u << 20;  // of one host's part: half of what a frame may hold

struct Gathered {
  Generation generation;
  std::vector<Rank> group;
  std::uint32_t sequence = 0;
  std::vector<std::string> parts;
  bool last = true;
  Dialect dialect = Dialect::pmi;
  TRAINRUN_MESSAGE(31) {
    v("generation", generation), v("group", group), v("sequence", sequence), v("parts", parts);
    v("last", last), v("dialect", dialect);
  }
};

struct GatherFailed {
  Generation generation;
  std::string reason;
  TRAINRUN_MESSAGE(32) { v("generation", generation), v("reason", reason); }
};

// A question to the agent of a rank, by way of the launcher, and its answer. The asker chooses the number;
// what reaches the other agent has one of the launcher's.
struct Ask {
  Generation generation;
  std::uint32_t question = 0;
  Rank rank;
  std::string key;
  Dialect dialect = Dialect::pmi;
  TRAINRUN_MESSAGE(33) {
    v("generation", generation), v("question", question), v("rank", rank), v("key", key);
    v("dialect", dialect);
  }
};

struct Answer {
  Generation generation;
  std::uint32_t question = 0;
  bool found = false;
  std::string bytes;
  TRAINRUN_MESSAGE(34) {
    v("generation", generation), v("question", question), v("found", found), v("bytes", bytes);
  }
};

// What the ranks of this host exchange by has gone: nothing of this generation will be completed.
struct ExchangeLost {
  Generation generation;
  std::string reason;
  TRAINRUN_MESSAGE(59) { v("generation", generation), v("reason", reason); }
};

#undef TRAINRUN_MESSAGE

}  // namespace trainrun::wire
