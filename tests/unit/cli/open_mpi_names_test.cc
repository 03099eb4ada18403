#include "cli/open_mpi_names.h"

#include <doctest/doctest.h>

#include "tests/unit/cli/world.h"

namespace {

World world_with(const std::string& file, const std::string& text) {
  World world;
  world.files["/home/u/" + file] = text;
  world.executables.insert({"/home/u/gpu", "/bin/bash", "/bin/sh"});
  return world;
}

}  // namespace

TEST_CASE("a script that reads Open MPI's variables finds them") {
  const std::string gpu = "export CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK\nexec \"$@\"\n";
  for (const Words& words : {Words{"-np", "2", "./gpu", "/bin/true"}, Words{"-np", "2", "bash", "gpu", "x"},
                             Words{"-np", "1", "/bin/true", ":", "-np", "1", "./gpu"}}) {
    CAPTURE(words.size());
    auto world = world_with("gpu", "#!/bin/sh\n" + gpu);
    CHECK(job_of(world, words).as_mpirun);
  }
  auto world = world_with("train.py", "rank = int(os.environ['OMPI_COMM_WORLD_RANK'])\n");
  CHECK(job_of(world, {"-np", "2", "python3", "-u", "train.py"}).as_mpirun);
  CHECK(job_of(world, {"-np", "2", "train.py"}).as_mpirun);
  CHECK(job_of(world, {"-np", "2", "sh", "-c", "echo $OMPI_COMM_WORLD_RANK"}).as_mpirun);
}

TEST_CASE("other programs are as they were, and data is not read") {
  auto world = world_with("gpu", "#!/bin/sh\necho $RANK\n");
  CHECK_FALSE(job_of(world, {"-np", "2", "./gpu"}).as_mpirun);
  world = world_with("data", "OMPI_COMM_WORLD_RANK\n");
  CHECK_FALSE(job_of(world, {"-np", "2", "/bin/cat", "data"}).as_mpirun);
  world = world_with("gpu", "#!/bin/sh\necho $OMPI_COMM_WORLD_RANK\n");
  CHECK_FALSE(job_of(world, {"--compat-cli", "hydra", "-n", "2", "./gpu"}).as_mpirun);
}
