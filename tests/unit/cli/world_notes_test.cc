// What is said of the first world before it starts.
#include "cli/world_notes.h"

#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

TEST_CASE("a launcher that several ranks of a host would run is told, with what to write instead") {
  World world;
  for (const char* name : {"torchrun", "mpirun", "python3", "env"})
    world.executables.insert(std::string("/bin/") + name);
  const auto notes = [&world](Words words) {
    const auto request = world.read(std::move(words));
    REQUIRE(request.has_value());
    return request->notes;
  };
  CHECK(notes({"-np", "2", "torchrun", "train.py"}) ==
        Words{"torchrun starts ranks by itself, and 2 of it start on one host: each will train alone (try: "
              "trainrun -np N and the script, without torchrun; or --ppn 1, for one torchrun a host)"});
  CHECK(notes({"-np", "2", "env", "A=1", "python3", "-u", "-m", "torch.distributed.run", "t.py"}).size() ==
        1);
  CHECK(notes({"-np", "1", "mpirun", "./a", ":", "-np", "3", "mpirun", "./b"}).size() == 1);
  CHECK(notes({"-np", "1", "torchrun", "train.py"}).empty());
  CHECK(notes({"-H", "a:8,b:8", "--ppn", "1", "torchrun", "train.py"}).empty());
  CHECK(notes({"-np", "2", "python3", "-m", "pkg.torchrun"}).empty());
}
