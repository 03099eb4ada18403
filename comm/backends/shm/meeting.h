// How the ranks of one host come to share memory: the first of them makes it and says in the rendezvous where
// it is, the others map it, and all hear of all whether they could. Only who has the job's key hears where it
// is, and a nonce in it proves that it is the memory that was meant.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/backends/shm/segment.h"
#include "comm/backends/shm/shm_backend.h"
#include "comm/failure.h"
#include "rendezvous/client.h"

namespace trainrun::comm {

struct ShmMeeting {
  rendezvous::Client& client;
  std::uint32_t rank, ranks;
  Deadline deadline;
  std::string scope = "comm/";  // before the keys in the rendezvous; another one for each group of ranks
  // What this rank has against it; empty: nothing. Then nobody uses it.
  std::string objection{};
  std::vector<Segment::Kind> kinds{Segment::Kind::anonymous, Segment::Kind::file};
  std::string folder = "/dev/shm";  // for a file
  std::uint32_t threads = 1;        // of each rank, that work while it waits or while others do
};

struct ShmMet {
  std::unique_ptr<ShmBackend> backend;  // null: at least one rank cannot
  std::string why_not;                  // then, in words
  bool objected = false;                // then: a rank did not want to
};

// All ranks call it, and all get the same answer. Fails only with the rendezvous.
Outcome<ShmMet> meet_in_memory(const ShmMeeting& meeting);

}  // namespace trainrun::comm
