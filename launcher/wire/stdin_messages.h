// The messages of a worker's stdin that the Link carries; a worker of the launcher's own host may have that
// itself.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/base/id.h"

namespace trainrun::wire {

#define TRAINRUN_MESSAGE(number)               \
  static constexpr std::uint8_t type = number; \
  template <class V>                           \
  void fields([[maybe_unused]] V& v)

// ---- launcher to agent

struct Stdin {
  WorkerId worker;
  std::string bytes;
  bool end = false;
  TRAINRUN_MESSAGE(4) { v("worker", worker), v("bytes", bytes), v("end", end); }
};

// ---- agent to launcher

// The worker took what it was given: it may have so many more bytes. 0: it closed its stdin.
struct StdinWanted {
  WorkerId worker;
  std::uint32_t bytes = 0;
  TRAINRUN_MESSAGE(49) { v("worker", worker), v("bytes", bytes); }
};

// Before Exited: so many of the bytes that were sent for it has the worker read.
struct StdinTaken {
  WorkerId worker;
  std::uint64_t bytes = 0;
  TRAINRUN_MESSAGE(67) { v("worker", worker), v("bytes", bytes); }
};

#undef TRAINRUN_MESSAGE

}  // namespace trainrun::wire
