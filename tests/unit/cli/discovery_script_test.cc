// A discovery that can never answer is an error of the command line, not a wait.
#include "cli/discovery_script.h"

#include <doctest/doctest.h>

#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

namespace {

World with_scripts() {
  World world;
  world.executables.insert({"/home/u/hosts.sh", "/home/u/shell", "/home/u/good.py", "/home/u/gone.py",
                            "/home/u/bare.py", "/home/u/windows.sh", "/home/u/env.py", "/bin/sh",
                            "/bin/cat"});
  world.files["/home/u/plain.sh"] = "#!/bin/sh\n";
  world.files["/home/u/hosts.sh"] = "#!/bin/sh\n";
  world.files["/home/u/shell"] = "echo a:2\n";
  world.files["/home/u/good.py"] = "#!/usr/bin/env python3\n";
  world.files["/home/u/gone.py"] = "#!/opt/python/bin/python3 -u\n";
  world.files["/home/u/env.py"] = "#!/usr/bin/env pyhton3\n";
  world.files["/home/u/bare.py"] = "import os\n";
  world.files["/home/u/windows.sh"] = "#!/bin/sh\r\n";
  return world;
}

std::string said(const std::string& command) {
  World world = with_scripts();
  return error_of(world, {"-np", "2", "--host-discovery-script", command, "./train"});
}

}  // namespace

TEST_CASE("a script that is there, or a line for a real shell, is asked") {
  for (const char* command :
       {"./hosts.sh", "./hosts.sh --zone b", "~/hosts.sh", "/home/u/shell", "./good.py", "cat hosts.txt",
        "echo a:2", "python3 train.py", "sh ./plain.sh", "sh -c 'x'", "for h in a b; do echo $h; done",
        "[ -f x ] && cat x", "X=1 nope", "$HOME/nope.sh", "(nope)", "nope|cat", "{ nope; }", "! nope"}) {
    CAPTURE(command);
    CHECK(said(command) == "no error");
  }
}

TEST_CASE("a script that can never answer is refused, with what to write") {
  const std::pair<std::string, std::string> rows[] = {
      {"hosts.sh",
       "'hosts.sh' is not in PATH, where a name without '/' is looked for | it is here: write ./hosts.sh"},
      {"plain.sh -a",
       "'plain.sh' is not in PATH, where a name without '/' is looked for | it is here, but not executable: "
       "chmod +x "
       "plain.sh, and write ./plain.sh"},
      {"hots.sh", "'hots.sh' is neither in PATH nor here | check the spelling, or write its path"},
      {"./hots.sh", "'/home/u/hots.sh' does not exist | a relative path is taken from where you are"},
      {"./plain.sh", "'/home/u/plain.sh' is not executable | chmod +x ./plain.sh"},
      {"./sub", "'/home/u/sub' is a directory"},
      {"./gone.py",
       "'/home/u/gone.py' is to be run by '/opt/python/bin/python3', which is not here | correct its first "
       "line: "
       "#!/opt/python/bin/python3 -u"},
      {"./env.py",
       "'/home/u/env.py' is to be run by 'pyhton3', which is not here | correct its first line: "
       "#!/usr/bin/env "
       "pyhton3"},
      {"./bare.py",
       "'./bare.py' has no '#!' line, so /bin/sh would run it | write 'python3 ./bare.py', or make its first "
       "line "
       "#!/usr/bin/env python3"},
      {"./windows.sh",
       "'/home/u/windows.sh' has the line ends of Windows, and its first line names no program so | sed -i "
       "'s/\\r$//' "
       "./windows.sh"},
      {"python3 hosts.py",
       "'python3' is to run '/home/u/hosts.py', which does not exist | a relative path is taken from where "
       "you are"},
      {"sh hots.sh",
       "'sh' is to run '/home/u/hots.sh', which does not exist | a relative path is taken from where you "
       "are"},
  };
  for (const auto& [command, expected] : rows) {
    CAPTURE(command);
    CHECK(said(command) == "--host-discovery-script: " + expected);
  }
}

TEST_CASE("without a PATH names are left to the shell, which has one of its own") {
  World world = with_scripts();
  world.environment = {{"HOME", "/home/u"}};
  CHECK(world.read({"-np", "2", "--host-discovery-script", "nope", "/home/u/train"}).has_value());
}
