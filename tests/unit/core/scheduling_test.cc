#include "launcher/core/scheduling.h"

#include <doctest/doctest.h>

using namespace trainrun;
using namespace trainrun::core;

namespace {

struct Case {
  JobSpec job;
  Seat seat;
  wire::HostFacts facts;

  explicit Case(std::vector<std::string> argv = {"python3", "train.py"}) {
    job.programs.push_back({.argv = std::move(argv), .np = 4, .directory = "/w"});
    seat.local_size = 4;
    for (std::uint32_t cpu = 0; cpu < 4; ++cpu) facts.cpus.push_back({cpu, cpu, 0, 0});
  }
  [[nodiscard]] bool batch() const { return runs_in_batch(job, seat, facts); }
};

}  // namespace

TEST_CASE("ranks of Python that share all cores run under SCHED_BATCH") {
  Case one;
  CHECK(one.batch());
  one.seat.local_size = 8;
  CHECK(one.batch());
  one.seat.local_size = 3;
  CHECK_FALSE(one.batch());
  one.seat.local_size = 2;
  one.facts.quota_millicores = 2000;  // of a container
  CHECK(one.batch());
  one.facts.quota_millicores = 1000;
  one.seat.local_size = 1;  // nobody to collect with
  CHECK_FALSE(one.batch());
}

TEST_CASE("what is no Python, has a GPU or an MPI does not") {
  CHECK(Case({"./train.py"}).batch());
  CHECK(Case({"env", "A=1", "/venv/bin/python", "-m", "pkg"}).batch());
  CHECK_FALSE(Case({"./train"}).batch());
  CHECK_FALSE(Case({"sh", "train.sh"}).batch());
  Case gpu;
  gpu.facts.gpus = 1;
  CHECK_FALSE(gpu.batch());
  gpu.job.env = {{"CUDA_VISIBLE_DEVICES", ""}};
  CHECK(gpu.batch());
  gpu.job.env = {{"CUDA_VISIBLE_DEVICES", "0"}};
  CHECK_FALSE(gpu.batch());
  gpu.job.programs[0].env = {{"CUDA_VISIBLE_DEVICES", "-1"}};
  CHECK(gpu.batch());
  Case mpi;
  mpi.facts.programs.mpi = {{.family = wire::MpiFamily::open_mpi, .guessed = true}};
  CHECK_FALSE(mpi.batch());
}

TEST_CASE("--sched batch and normal hold for all") {
  Case one({"./train"});
  one.job.scheduling = Scheduling::batch;
  CHECK(one.batch());
  Case other;
  other.job.scheduling = Scheduling::normal;
  CHECK_FALSE(other.batch());
}
