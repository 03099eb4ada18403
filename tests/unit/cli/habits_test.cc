#include <doctest/doctest.h>

#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

namespace {

Words notes(const Words& words) {
  World world;
  const auto request = world.read(words);
  REQUIRE(request.has_value());
  return request->notes;
}

}  // namespace

TEST_CASE("words of mpirun, srun and torchrun that mean nothing here are answered with ours") {
  const std::pair<Words, std::string> rows[] = {
      {{"-m", "cyclic", "./train"},
       "-m cyclic: no module of that name is here | -m is python's; for srun's -m write --map-by slot "
       "(block) "
       "or --map-by host (cyclic)"},
      {{"-p", "debug", "./train"},
       "-p: 'debug' is not a whole number from 1 to 65535 | -p is the port of sshd; srun's -p PARTITION is "
       "for "
       "sbatch or salloc"},
      {{"-p", "0", "./train"}, "-p: '0' is not a whole number from 1 to 65535"},
      {{"--compat-cli", "none", "--map-by", "socket:PE=2", "./train"},
       "--map-by: 'socket:PE=2' is not slot, host or ppr:N:PART | write --cpus-per-rank N for PE=N"},
      {{"--compat-cli", "none", "--map-by", "slot:OVERSUBSCRIBE", "./train"},
       "--map-by: 'slot:OVERSUBSCRIBE' is not slot, host or ppr:N:PART | write --oversubscribe beside "
       "--map-by "
       "slot or host"},
      {{"--map-by", "ppr:1:board", "./train"},
       "--map-by: 'ppr:1:board' is not slot, host or ppr:N:PART | write N, from 1, and host, socket, numa, "
       "l3cache or core, as in ppr:2:socket"},
      {{"--compat-cli", "none", "--map-by", "l3cache", "./train"},
       "--map-by: 'l3cache' is not slot, host or ppr:N:PART | write --map-by slot or host, and --bind-to "
       "core, "
       "numa or socket for the place on a host"},
      {{"--map-by", "nothing", "./train"}, "--map-by: 'nothing' is not slot, host or ppr:N:PART"},
      {{"--compat-cli", "none", "--bind-to", "hwthread", "./train"},
       "--bind-to: 'hwthread' is not one of none, core, l3cache, numa, socket, auto | write --bind-to core: "
       "a rank "
       "has all "
       "hardware threads of its core"},
      {{"--compat-cli", "none", "--bind-to", "l2cache", "./train"},
       "--bind-to: 'l2cache' is not one of none, core, l3cache, numa, socket, auto | write --bind-to l3cache "
       "or "
       "core, or --cpus-per-rank N"},
      // Not the beginning of horovodrun's --timeline-filename.
      {{"--time", "10", "./train"},
       "unknown flag '--time' | write --timeout TIME (srun's 10 are minutes: 10m)"},
      {{"--time=10", "-np", "2", "./train"},
       "unknown flag '--time' | write --timeout TIME (srun's 10 are minutes: 10m)"},
      {{"--exclude", "b", "./train"},
       "unknown flag '--exclude' | write -H a,b with the hosts that are to be used"},
      {{"-H", "a,b", "--nnodes", "3", "--nproc-per-node", "2", "./train"},
       "--nnodes 3, but the job has 2 hosts | name more hosts, or lower --nnodes"},
  };
  for (const auto& [words, expected] : rows) CHECK(error_of(words) == expected);
}

TEST_CASE("a list behind -x is one variable, of which only the names are said") {
  CHECK(notes({"-np", "1", "-x", "A=secret,B=hidden", "./train"}) ==
        Words{"-x A=...,B=... is one variable, A; for two write -x A=... -x B=..."});
  CHECK(notes({"-np", "1", "-x", "A=1,2", "-x", "C=a,b c=d", "./train"}).empty());
}

TEST_CASE("a dry run says which program is not on this host") {
  CHECK(notes({"--dry-run", "-H", "gpu1", "./nope"}) ==
        Words{"'./nope' is not on this host; whether the others have it is seen at the start (or by "
              "--check-hosts)"});
  CHECK(notes({"--dry-run", "-H", "gpu1", "./train"}).empty());
}
