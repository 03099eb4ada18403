#include "cli/part_hosts.h"

#include <doctest/doctest.h>

#include "launcher/core/placement.h"
#include "tests/unit/cli/world.h"

using namespace trainrun;

namespace {

// "server@a client@b client@c": the program and host of each rank.
std::string seats(World& world, Words words) {
  const auto job = job_of(world, std::move(words));
  const auto placed = core::place(job, Generation{1});
  REQUIRE(placed);
  std::string out;
  for (const auto& seat : placed->seats)
    out += (out.empty() ? "" : " ") + job.programs[seat.program].argv.front() + "@" +
           job.hosts.hosts[seat.host.value].name;
  return out;
}

std::string seats(Words words) {
  World world;
  return seats(world, std::move(words));
}

}  // namespace

TEST_CASE("each program runs on the hosts that its own part names") {
  CHECK(seats({"-np", "1", "-H", "a", "s", ":", "-np", "2", "-H", "b,c", "w"}) == "s@a w@b w@c");
  CHECK(seats({"-np", "2", "-H", "b:2", "s", ":", "-np", "1", "-H", "a", "w"}) == "s@b s@b w@a");
  CHECK(seats({"-np", "1", "-H", "a", "s", ":", "-np", "3", "-H", "b:2,a:1", "w"}) == "s@a w@b w@b w@a");
}

TEST_CASE("parts that say the same, or one part alone, speak of the whole job") {
  CHECK(seats({"-np", "1", "-H", "a:2", "s", ":", "-np", "1", "-H", "a:2", "w"}) == "s@a w@a");
  CHECK(seats({"-np", "1", "-H", "a,b", "s", ":", "-np", "1", "w"}) == "s@a w@b");
  CHECK(seats({"-np", "1", "-H", "a", "-H", "b", "s", ":", "-np", "1", "-H", "a", "-H", "b", "w"}) ==
        "s@a w@b");
}

TEST_CASE("--map-by and --oversubscribe hold within a part") {
  CHECK(seats({"--map-by", "node", "-np", "3", "-H", "a:2,b:2", "s", ":", "-np", "1", "-H", "c", "w"}) ==
        "s@a s@b s@a w@c");
  CHECK(seats({"--oversubscribe", "-np", "3", "-H", "a", "s", ":", "-np", "1", "-H", "c", "w"}) ==
        "s@a s@a s@a w@c");
}

TEST_CASE("a file counts the slots that several programs share") {
  World world;
  world.files["/home/u/hosts"] = "a slots=3\nb slots=2\nc slots=2\n";
  CHECK(seats(world, {"--hostfile", "hosts", "-np", "2", "-H", "a", "s", ":", "-np", "3", "-H", "a,b",
                      "w"}) == "s@a s@a w@a w@b w@b");
  CHECK(
      error_of(world, {"--hostfile", "hosts", "-np", "2", "-H", "a,b", "s", ":", "-np", "2", "-H", "a", "w"})
          .starts_with("part 2 (-H a): -np 2 needs 2 slots, the host has 1"));
}

TEST_CASE("what cannot be is said with its part") {
  CHECK(error_of({"-np", "1", "-H", "a", "s", ":", "-np", "2", "-H", "b", "w"})
            .starts_with("part 2 (-H b): -np 2 needs 2 slots, the host has 1"));
  CHECK(error_of({"-np", "1", "-H", "a", "s", ":", "-np", "1", "w", ":", "-np", "1", "-H", "b", "w"}) ==
        "part 2 names no hosts, and part 1 (-H a) has hosts of its own | give each program its own hosts, or "
        "name all hosts in one -H");
  CHECK(error_of(
            {"--on-failure", "restart-world", "-np", "1", "-H", "a", "s", ":", "-np", "1", "-H", "b", "w"}) ==
        "-H: the programs of an elastic job have no hosts of their own | name all hosts in one -H");
}

TEST_CASE("Hydra deals more ranks than slots, in each part by itself") {
  World world;
  CHECK(seats(world, {"--compat-cli", "hydra", "-n", "1", "-host", "a", "s", ":", "-n", "3", "-host", "b",
                      "w"}) == "s@a w@b w@b w@b");
}

TEST_CASE("a file may say it, --print-config writes such a file, and a flag names other hosts for all") {
  World world;
  world.files["/home/u/j.toml"] =
      "[[program]]\nnp = 1\nhosts = \"a\"\ncommand = [\"s\"]\n"
      "[[program]]\nnp = 2\nhosts = [\"b\", \"c\"]\ncommand = [\"w\"]\n";
  CHECK(seats(world, {"--config", "j.toml"}) == "s@a w@b w@c");
  CHECK(seats(world, {"--config", "j.toml", "-H", "x:3"}) == "s@x w@x w@x");

  const auto printed =
      world.read({"--print-config", "-np", "1", "-H", "a", "s", ":", "-np", "2", "-H", "b:2,a", "w"});
  REQUIRE(printed);
  world.files["/home/u/k.toml"] = printed->text;
  CHECK(seats(world, {"--config", "k.toml"}) == "s@a w@b w@b");
}

TEST_CASE("Hydra fills hosts again when there are more ranks than slots") {
  const std::pair<Words, std::string> rows[] = {
      {{"-hosts", "a,b", "-n", "3"}, "w@a w@b w@a"},
      {{"-hosts", "a:2,b:1", "-n", "4"}, "w@a w@a w@b w@a"},
      {{"-hosts", "a,b", "-n", "2"}, "w@a w@b"},
      {{"-hosts", "a,b", "-n", "4", "-ppn", "1"}, "w@a w@b w@a w@b"},
  };
  for (const auto& [words, expected] : rows) {
    CAPTURE(words[1]);
    Words all{"--compat-cli", "hydra"};
    all.insert(all.end(), words.begin(), words.end());
    all.emplace_back("w");
    CHECK(seats(all) == expected);
  }
  CHECK(seats({"--compat-cli", "hydra", "-hosts", "a,b", "-n", "1", "s", ":", "-n", "2", "w"}) ==
        "s@a w@b w@a");
}

TEST_CASE("as mpirun each program begins with the first host again, by node") {
  CHECK(seats({"--compat-cli", "openmpi", "-H", "a:2,b:2", "--map-by", "node", "-np", "1", "s", ":", "-np",
               "3", "w"}) == "s@a w@a w@b w@b");
  CHECK(seats({"--compat-cli", "openmpi", "-H", "a:2,b:2", "--map-by", "node", "-np", "2", "s", ":", "-np",
               "2", "w"}) == "s@a s@b w@a w@b");
  CHECK(seats({"-H", "a:2,b:2", "--map-by", "node", "-np", "1", "s", ":", "-np", "3", "w"}) ==
        "s@a w@b w@a w@b");
}
