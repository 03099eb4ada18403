// Ranks that have an MPI in them which has spoken to nobody take themselves for worlds of one, each of them,
// and give wrong results without an error: that is said, once a world.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/io/frame_stream.h"
#include "launcher/io/loop.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

class MpiWatch {
 public:
  struct Silent {  // a rank that lives and has spoken to no door of ours
    WorkerId worker;
    pid_t pid = -1;
  };
  MpiWatch(io::Loop& loop, io::FrameStream& link, std::function<std::vector<Silent>()> silent);

  // A rank was ordered that finds a door; of a world of one nobody expects anything.
  void ordered(const wire::Start& order);
  void drop();

 private:
  struct Expected {
    Rank rank;
    bool pmi = false, pmix = false;  // what it was offered
  };
  void arm();
  void look();

  io::FrameStream& link_;
  std::function<std::vector<Silent>()> silent_;
  Generation generation_{};
  Instant begun_{};        // of its ranks' start
  std::size_t looks_ = 0;  // so far
  std::map<WorkerId, Expected> ranks_;
  io::Timer timer_;
};

// A process that has mapped the library of an MPI.
struct MappedMpi {
  pid_t process = -1;
  std::string library{};  // empty: there is none
};
// This one, or one that descends from it.
MappedMpi mapped_mpi(pid_t process);

}  // namespace trainrun::agent
