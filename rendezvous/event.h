// What the rendezvous tells whoever owns it, the launcher, besides answering members.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "launcher/base/id.h"
#include "rendezvous/messages.h"

namespace trainrun::rendezvous {

// A member has asked to join; the others may still be on their way.
struct MemberJoined {
  Generation generation;
  Rank rank;
};
// All members are here. `elastic`: each of them can go on in the next generation without a new process.
struct Formed {
  Generation generation;
  bool elastic = false;
};
// The generation is over, and not by a word of the launcher's: a member aborted, named others that stalled,
// or closed its connection without leave and the launcher had nothing to say about it.
struct Broken {
  Generation generation;
  Verdict verdict;
};
// The worker has left the work of the generation and waits for its place in a later one.
struct MemberWaits {
  Generation generation;
  WorkerId worker;
};
// The member has got on with its work.
struct MemberPulse {
  Generation generation;
  WorkerId worker;
  Pulse said;
};

using Event = std::variant<MemberJoined, Formed, Broken, MemberWaits, MemberPulse>;

}  // namespace trainrun::rendezvous
