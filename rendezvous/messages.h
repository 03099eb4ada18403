// What members and the rendezvous server say to each other, as plain values. PROTOCOL.md specifies the bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/base/compiled_once.h"
#include "launcher/base/id.h"

namespace trainrun::rendezvous {

struct Member {
  std::uint32_t rank = 0;
  std::string host;     // as the launcher or the member named it
  std::string address;  // numeric address at which the other members reach it; may be empty
  std::uint32_t local_rank = 0, local_size = 1;
  std::uint32_t worker = 0;  // the process, never reused within the job; 0 when nobody knows (an open world)

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.rank, self.host, self.address, self.local_rank, self.local_size, self.worker);
  }
  friend bool operator==(const Member&, const Member&) = default;
};

// All of a generation. It never travels whole: see Joined and Members.
struct World {
  std::uint32_t generation = 1;
  std::uint32_t size = 1;
  std::string job;              // the job's id; may be empty
  std::vector<Member> members;  // by rank. Empty in begin(): whoever comes, `size` of them

  friend bool operator==(const World&, const World&) = default;
};

// How a generation ended.
struct Verdict {
  enum class Kind : std::uint8_t {
    ended,    // as planned: all left, or the next generation begins
    lost,     // a member died
    aborted,  // a member or the launcher gave up
    stalled,  // members waited in vain for others
  };
  Kind kind = Kind::ended;
  std::optional<std::uint32_t> culprit;  // rank
  std::string host;                      // the culprit's
  std::string how;                       // for people: "was killed by SIGKILL"
  std::vector<std::uint32_t> missing;    // stalled: the ranks that did not come

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.kind, self.culprit, self.host, self.how, self.missing);
  }
  friend bool operator==(const Verdict&, const Verdict&) = default;
};
constexpr Verdict::Kind last_of(Verdict::Kind) { return Verdict::Kind::stalled; }
// "rank 3 on gpu2 was lost: was killed by SIGKILL".
std::string describe(const Verdict& verdict);
// The ranks that the others had better go on without. An abort names who told of the trouble, which is as a
// rule not who made it.
std::vector<std::uint32_t> at_fault(const Verdict& verdict);

// --- requests; a `wait_ms` is how long the server may take before it answers `timeout` ---

// Answered with Joined, each with its own, when all members of the generation are here. Without a rank, free
// ranks are given in the order of arrival.
struct Join {
  std::optional<std::uint32_t> rank;
  std::string host, address;
  std::uint32_t wait_ms = 0;
  bool elastic = false;      // it can go on in the next generation without a new process
  std::uint32_t worker = 0;  // 0: not told. Refused when the rank is another worker's

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.rank, self.host, self.address, self.wait_ms, self.elastic, self.worker);
  }
};
// The member is done; its connection may close afterwards. `at_close`: it is done only then, and until then
// the launcher may know better how it ended; others may still count on it. Done.
struct Leave {
  bool at_close = false;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.at_close);
  }
};
// Done.
struct Put {
  std::string key, value;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.key, self.value);
  }
};
// Values of one, or not_found.
struct Get {
  std::string key;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.key);
  }
};
// Values of all the keys, once all exist.
struct Wait {
  std::vector<std::string> keys;
  std::uint32_t wait_ms = 0;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.keys, self.wait_ms);
  }
};
// Sets the key if its value is `expected` (nothing: if it does not exist). Swapped.
struct CompareAndSet {
  std::string key;
  std::optional<std::string> expected;
  std::string desired;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.key, self.expected, self.desired);
  }
};
// Values of prefix0 .. prefix<count-1>, once all exist.
struct Gather {
  std::string prefix;
  std::uint32_t count = 0;
  std::uint32_t wait_ms = 0;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.prefix, self.count, self.wait_ms);
  }
};
// Done for all the ranks (none named: all of the world) once all of them are in it. The name may be used
// again.
struct Barrier {
  std::string name;
  std::vector<std::uint32_t> ranks;
  std::uint32_t wait_ms = 0;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.name, self.ranks, self.wait_ms);
  }
};
// From the first of `ranks`: the NCCL unique ids of one communicator, nccl_id_count(ranks) of them. Done.
struct PublishIds {
  std::string group;
  std::vector<std::uint32_t> ranks;
  std::vector<std::string> ids;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.group, self.ranks, self.ids);
  }
};
// Values: the ids of the group of `size` ranks whose first is `first`, once they are published.
struct FetchIds {
  std::string group;
  std::uint32_t first = 0, size = 1;
  std::uint32_t wait_ms = 0;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.group, self.first, self.size, self.wait_ms);
  }
};
// Over, when the generation ends.
struct Watch {
  std::uint32_t wait_ms = 0;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.wait_ms);
  }
};
// Ends the generation for everybody. With missing ranks the verdict is `stalled`, else `aborted`. Done.
struct Abort {
  std::string why;
  std::vector<std::uint32_t> missing;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.why, self.missing);
  }
};

// "I have left the work of the generation that this request names; where is my place in the first one after
// it?" Placed, at once or when the launcher begins one with this worker in it; removed when it never will.
struct Next {
  std::uint32_t worker = 0;
  std::uint32_t wait_ms = 0;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.worker, self.wait_ms);
  }
};
// Notice: the first one of this generation with a number above `seen`, once it is there. `rank` is the one
// who asks, on whatever connection.
struct News {
  std::uint32_t rank = 0;
  std::uint32_t seen = 0;
  std::uint32_t wait_ms = 0;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.rank, self.seen, self.wait_ms);
  }
};
// A sign of life and progress of the member `rank`, which has joined: its last operation. Done.
struct Pulse {
  // Of `group`: all ranks; steps of a program whose operations are another library's, where in_operation says
  // nothing; else a number that all members of the group give it.
  static constexpr std::uint32_t all_ranks = 0, steps = 0xffffffff;

  std::uint32_t rank = 0;
  std::string op;
  std::uint64_t sequence = 0;  // 0: it connects with the others of the group
  bool in_operation = false;
  std::uint32_t group = all_ranks;
  std::uint64_t bytes = 0;    // of one rank's buffer
  std::uint32_t members = 0;  // of the group; of steps nothing
  // It has connected with all ranks, and `op` says over what; one that has only come out of it says nothing.
  [[nodiscard]] bool connected() const {
    return group == all_ranks && sequence == 0 && !in_operation && !op.empty();
  }
  [[nodiscard]] bool connects() const {
    return group != steps && sequence == 0;
  }  // it has called nothing yet

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.rank, self.op, self.sequence, self.in_operation, self.group, self.bytes, self.members);
  }
};

// Members: those of the ranks first .. first+count-1, once all have joined. As many as one wants to know of,
// since a world that each of its members reads whole costs the square of its size.
struct FetchMembers {
  std::uint32_t first = 0, count = 1;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.first, self.count);
  }
};

struct RequestBody : std::variant<Join, Leave, Put, Get, Wait, CompareAndSet, Gather, Barrier, PublishIds,
                                  FetchIds, Watch, Abort, Next, News, Pulse, FetchMembers> {
  TRAINRUN_COMPILED_ONCE(RequestBody)
};
struct Request {
  std::uint32_t id = 0;  // chosen by the client, returned in the reply
  std::uint32_t generation = 0;
  RequestBody body;
};

// --- replies ---

struct Done {
  template <class Self, class V>
  static void fields(Self&, V&) {}
};
// As long in a world of a hundred thousand as in one of two.
struct Joined {
  std::uint32_t generation = 0, size = 0;
  std::string job;
  std::uint64_t digest = 0;  // digest_of() all members, the same for each of them
  Member self;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.generation, self.size, self.job, self.digest, self.self);
  }
};
struct Values {
  std::vector<std::string> values;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.values);
  }
};
struct Swapped {
  bool swapped = false;
  std::optional<std::string> current;  // the value after the call

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.swapped, self.current);
  }
};
struct Over {
  Verdict verdict;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.verdict);
  }
};

struct Placed {
  std::uint32_t generation = 0, rank = 0;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.generation, self.rank);
  }
};
// What the launcher has in mind for the hosts, told to members before it is done.
enum class Change : std::uint8_t {
  none,
  added,    // hosts will be added
  leaving,  // hosts will leave
  both,
};
constexpr Change last_of(Change) { return Change::both; }
struct Notice {
  std::uint32_t number = 0;  // from 1 in each generation
  Change change = Change::none;
  bool stop = false;  // the member who asked is about to lose its host, or was asked to go
  std::string text;   // one line for people
  // This member left while others may have counted on it: no operation of all ranks can be complete any more.
  std::optional<std::uint32_t> left{};

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.number, self.change, self.stop, self.text, self.left);
  }
};

struct Members {
  std::vector<Member> members;  // by rank

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.members);
  }
};

enum class FailureKind : std::uint8_t {
  invalid,    // the request makes no sense here
  not_found,  // no such key
  exists,     // the rank or the NCCL group is taken
  limit,      // a size or a number is above the protocol's limits
  timeout,    // the deadline passed; `missing` says who did not come
  stale,      // another generation than the current one, which `current` names
  over,       // the generation has ended; `verdict` says how
  left,       // a member that is needed has left; `missing` names it
  removed,    // the launcher has no more use for this worker
  // Never sent; the client says these by itself:
  disconnected,  // the server cannot be reached, or the connection broke
  refused,       // the peer does not have the key, or does not speak this protocol
};
constexpr FailureKind last_of(FailureKind) { return FailureKind::removed; }

struct Failure {
  FailureKind kind = FailureKind::invalid;
  std::string message;  // one line for people
  std::uint32_t current = 0;
  std::vector<std::uint32_t> missing;  // ranks, the first max_missing of them
  std::optional<Verdict> verdict;

  template <class Self, class V>
  static void fields(Self& self, V& v) {
    v(self.kind, self.message, self.current, self.missing, self.verdict);
  }
};

struct ReplyBody : std::variant<Done, Joined, Values, Swapped, Over, Failure, Placed, Notice, Members> {
  TRAINRUN_COMPILED_ONCE(ReplyBody)
};

struct Reply {
  std::uint32_t id = 0;
  ReplyBody body;
};

}  // namespace trainrun::rendezvous
