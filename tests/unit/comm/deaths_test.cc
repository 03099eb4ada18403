// A rank that ends at a named point of an operation: whatever the operation and the moment, every other rank
// hears who it was, and nobody hangs.
#include "tests/unit/comm/job.h"

using namespace trainrun;

namespace {

void try_death(const std::string& backend, const std::string& mode, const std::string& fault) {
  CAPTURE(backend);
  CAPTURE(mode);
  CAPTURE(fault);
  Job job(3, backend, mode, {}, "60", fault);
  for (const std::uint32_t rank : {0, 1}) {
    const auto said = job.all(rank);
    CHECK_MESSAGE(
        said.find("failed PeerLost culprit 2 host " + host_of(2, backend) + " ") != std::string::npos, said);
    CHECK(job.exit_code(rank) == 3);
  }
  CHECK(job.exit_code(2) == (fault.find("=kill") != std::string::npos ? 128 + SIGKILL : 3));
}

}  // namespace

TEST_CASE("a rank that ends at any point of any operation is named by all others") {
  // The worker's operations follow one another, each small and large; what the numbers hit is spread over
  // them.
  for (const std::string backend : {"shm", "gloo"})
    for (const std::string point : {"comm.come", "comm.wait", "comm.past"})
      for (const int passing : {1, 2, 5, 11, 18, 26, 39, 57}) {
        const bool kill = passing % 2 == 1;
        try_death(backend, "all_operations", fmt::format("{}={}:{}", point, kill ? "kill" : "exit", passing));
      }
}

TEST_CASE("the same with a forked child that outlives the rank") {
  for (const std::string backend : {"shm", "gloo"})
    for (const int passing : {3, 20}) {
      try_death(backend, "all_operations_and_child", fmt::format("comm.wait=kill:{}", passing));
      try_death(backend, "all_operations_and_child", fmt::format("comm.past=exit:{}", passing));
    }
}

TEST_CASE("groups, sends and worlds that have ended leave no descriptor, thread or memory behind") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(3, backend, "leaks");
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      CHECK(job.all(rank) == "nothing left\n");
      CHECK(job.exit_code(rank) == 0);
    }
  }
}
