// What the name of a program means, decided on the launcher's host for all.
#include "cli/program_search.h"

#include "tests/unit/cli/world.h"

using namespace trainrun;

namespace {

// A virtual environment that comes first in PATH, and scripts.
World with_venv() {
  World world;
  world.environment = {{"PATH", "/venv/bin:/usr/bin:/bin"}, {"HOME", "/home/u"}};
  for (const auto* path : {"/venv/bin/python3", "/venv/bin/torch_tool", "/home/u/by_env", "/home/u/by_path",
                           "/home/u/by_odd_env", "/home/u/sub/tool", "/usr/bin/shim", "/usr/bin/nice"})
    world.executables.insert(path);
  world.files["/venv/bin/torch_tool"] = "#!/venv/bin/python3\nimport torch\n";
  world.files["/home/u/by_env"] = "#!/usr/bin/env python3\n";
  world.files["/home/u/by_path"] = "#!/bin/true -x\n";
  world.files["/home/u/by_odd_env"] = "#!/usr/bin/env -i python3\n";
  world.files["/usr/bin/shim"] = "#!/usr/bin/env -S python3 -u\n";
  return world;
}

// "name=path ..." of all that was found.
std::string found(const Program& program) {
  std::string out;
  for (const auto& one : program.found) out += (out.empty() ? "" : " ") + one.name + "=" + one.path;
  return out;
}

}  // namespace

TEST_CASE("with other hosts a name is looked up here, and all hosts run what was found") {
  struct Row {
    Words words, argv;
    std::string found;
  };
  const Row rows[] = {
      {{"python3", "train.py"}, {"/venv/bin/python3", "train.py"}, "python3=/venv/bin/python3"},
      {{"train.py"}, {"/venv/bin/python3", "train.py"}, "python3=/venv/bin/python3"},
      {{"-m", "pkg"}, {"/venv/bin/python3", "-m", "pkg"}, "python3=/venv/bin/python3"},
      // a script's interpreter must be there too; the kernel starts it
      {{"torch_tool", "x"},
       {"/venv/bin/torch_tool", "x"},
       "torch_tool=/venv/bin/torch_tool =/venv/bin/python3"},
      {{"./by_path", "x"}, {"./by_path", "x"}, "=/bin/true"},
      // env would look in each host's PATH: it is followed here
      {{"env", "A=1", "python3", "x"},
       {"/usr/bin/env", "A=1", "/venv/bin/python3", "x"},
       "env=/usr/bin/env python3=/venv/bin/python3"},
      {{"/usr/bin/env", "python3"}, {"/usr/bin/env", "/venv/bin/python3"}, "python3=/venv/bin/python3"},
      {{"env", "PATH=/usr/bin", "python3"},
       {"/usr/bin/env", "PATH=/usr/bin", "/usr/bin/python3"},
       "env=/usr/bin/env python3=/usr/bin/python3"},
      {{"./by_env", "x"},
       {"/venv/bin/python3", "/home/u/by_env", "x"},
       "python3=/venv/bin/python3 =/home/u/by_env"},
      {{"shim", "x"},
       {"/venv/bin/python3", "-u", "/usr/bin/shim", "x"},
       "shim=/usr/bin/shim python3=/venv/bin/python3"},
      {{"env", "A=1", "./by_env"},
       {"/usr/bin/env", "A=1", "/venv/bin/python3", "/home/u/by_env"},
       "env=/usr/bin/env =/home/u/by_env python3=/venv/bin/python3"},
      // so would nice and the like
      {{"nice", "-n", "5", "python3", "x"},
       {"/usr/bin/nice", "-n", "5", "/venv/bin/python3", "x"},
       "nice=/usr/bin/nice python3=/venv/bin/python3"},
      {{"/usr/bin/nice", "env", "A=1", "./by_env"},
       {"/usr/bin/nice", "/usr/bin/env", "A=1", "/venv/bin/python3", "/home/u/by_env"},
       "env=/usr/bin/env =/home/u/by_env python3=/venv/bin/python3"},
      {{"nice", "only_there"}, {"/usr/bin/nice", "only_there"}, "nice=/usr/bin/nice"},
      // a path behind them must be there as well
      {{"env", "A=1", "/venv/bin/python3", "x"},
       {"/usr/bin/env", "A=1", "/venv/bin/python3", "x"},
       "env=/usr/bin/env =/venv/bin/python3"},
      {{"nice", "-n", "5", "./train"},
       {"/usr/bin/nice", "-n", "5", "./train"},
       "nice=/usr/bin/nice =/home/u/train"},
      {{"nice", "./not_here"}, {"/usr/bin/nice", "./not_here"}, "nice=/usr/bin/nice"},
      // only env knows what its options do
      {{"env", "-i", "python3"}, {"/usr/bin/env", "-i", "python3"}, "env=/usr/bin/env"},
      {{"./by_odd_env"}, {"./by_odd_env"}, "=/usr/bin/env"},
      // paths are what they are
      {{"/usr/bin/python3"}, {"/usr/bin/python3"}, ""},
      {{"./train"}, {"./train"}, ""},
      {{"--wdir", "sub", "./tool"}, {"./tool"}, ""},
  };
  for (const auto& row : rows) {
    CAPTURE(row.words.front());
    World world = with_venv();
    Words words = {"-H", "gpu1,gpu2"};
    words.insert(words.end(), row.words.begin(), row.words.end());
    const auto job = job_of(world, words);
    CHECK(job.programs[0].argv == row.argv);
    CHECK(found(job.programs[0]) == row.found);
  }
}

TEST_CASE("the PATH that counts is that of the workers") {
  World world = with_venv();
  CHECK(job_of(world, {"-H", "gpu1", "-x", "PATH=/usr/bin", "python3"}).programs[0].argv.front() ==
        "/usr/bin/python3");
  const auto parts = job_of(
      world, {"-H", "gpu1:2", "-np", "1", "-x", "PATH=/usr/bin", "python3", ":", "-np", "1", "python3"});
  CHECK(parts.programs[0].argv.front() == "/usr/bin/python3");
  CHECK(parts.programs[1].argv.front() == "/venv/bin/python3");
  CHECK(job_of(world, {"-H", "gpu1", "--env", "none", "python3"}).programs[0].argv.front() == "python3");
}

TEST_CASE("a name that is not found here is left to each host, and -v says so") {
  World world = with_venv();
  const auto request = world.read({"-v", "-H", "gpu1", "only_there", "x"});
  REQUIRE(request.has_value());
  CHECK(request->job.programs[0].argv == Words{"only_there", "x"});
  CHECK(request->job.programs[0].found.empty());
  CHECK(request->notes == Words{"'only_there' is not in PATH here: each host looks in its own"});
  CHECK(world.read({"-v", "-H", "gpu1", "python3"})->notes ==
        Words{"'python3' is '/venv/bin/python3' on every host"});
  CHECK(world.read({"-H", "gpu1", "only_there"})->notes.empty());
}

TEST_CASE("--resolve each, a job of this host and --print-config leave names as they are") {
  World world = with_venv();
  for (const auto& words : {Words{"--resolve", "each", "-H", "gpu1", "python3"}, Words{"-np", "1", "python3"},
                            Words{"-H", "localhost", "python3"}}) {
    const auto job = job_of(world, words);
    CHECK(job.programs[0].argv == Words{"python3"});
    CHECK(job.programs[0].found.empty());
  }
  const auto printed = world.read({"--print-config", "-H", "gpu1", "python3"});
  REQUIRE(printed.has_value());
  CHECK(printed->text.find("\"python3\"") != std::string::npos);
  CHECK(job_of(world, {"--dry-run", "-H", "gpu1", "python3"}).programs[0].argv.front() ==
        "/venv/bin/python3");
  CHECK(job_of(world, {"--check-hosts", "-H", "gpu1", "python3"}).programs[0].argv.front() ==
        "/venv/bin/python3");
}
