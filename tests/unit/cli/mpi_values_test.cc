// Values of mpirun's and mpiexec's options that decide where ranks go, what they find and how hosts are
// reached.
#include <doctest/doctest.h>

#include "cli/program.h"
#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

TEST_CASE("Hydra's options that take the environment away leave PATH, by which programs are found") {
  for (const Words& words :
       {Words{"-genvlist", "FOO"}, Words{"-genvnone"}, Words{"-envlist", "FOO"}, Words{"-envnone"}}) {
    CAPTURE(words.front());
    for (const Words& hosts : {Words{}, Words{"-hosts", "a,b"}}) {
      World world = called("mpiexec.hydra", {{"FOO", "1"}});
      Words line = words;
      line.insert(line.end(), hosts.begin(), hosts.end());
      line.insert(line.end(), {"-n", "2", "true"});
      const auto job = job_of(world, line);
      CHECK(variable(job.env, "PATH") == "/usr/bin:/bin");
      CHECK(variable(job.env, "HOME").empty());
      CHECK(variable(job.env, "FOO") == (words.size() > 1 ? "1" : ""));
    }
  }
  World world = called("mpiexec.hydra");
  world.executables.insert("/opt/true");
  for (const Words& words :
       {Words{"-genvnone", "-genv", "PATH", "/opt"}, Words{"-genv", "PATH", "/opt", "-genvnone"}}) {
    Words line = words;
    line.insert(line.end(), {"-n", "2", "true"});
    CHECK(variable(job_of(world, line).env, "PATH") == "/opt");
  }
  World bare = called("mpiexec.hydra");
  bare.environment.clear();
  const auto request = bare.read({"-genvnone", "-n", "1", "/bin/true"});
  REQUIRE(request.has_value());
  CHECK(request->notes.empty());
}
