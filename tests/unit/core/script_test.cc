#include "launcher/core/script.h"

#include <doctest/doctest.h>

using namespace trainrun::core;
using Words = std::vector<std::string>;

TEST_CASE("the script of an interpreter is its first argument, unless that is an option") {
  CHECK(script_of({"python3", "train.py", "--epochs", "3"}) == "train.py");
  CHECK(script_of({"/opt/venv/bin/python3.11", "/code/train.py"}) == "/code/train.py");
  CHECK(script_of({"python", "."}) == ".");
  CHECK(script_of({"env", "A=b", "python3", "train.py"}) == "train.py");
  for (const Words& none :
       {Words{"python3"}, Words{"python3", "-m", "train"}, Words{"python3", "-u", "train.py"},
        Words{"python3", ""}, Words{"python3-config", "train.py"}, Words{"./train", "train.py"}, Words{}})
    CHECK(script_of(none).empty());
}

TEST_CASE("what env runs is its first word that sets no variable, unless it has options") {
  CHECK(program_of_env({"env", "python3", "train.py"}) == 1);
  CHECK(program_of_env({"/usr/bin/env", "A=1", "B=", "./train"}) == 3);
  for (const Words& none :
       {Words{}, Words{"env"}, Words{"env", "A=1"}, Words{"env", "-i", "python3"},
        Words{"python3", "train.py"}, Words{"env", "A=1", "-u", "B", "python3"}, Words{"environment", "x"}})
    CHECK(program_of_env(none) == 0);
}

TEST_CASE("a launcher that starts ranks by itself, by its name or as a module") {
  CHECK(launcher_of({"/venv/bin/torchrun", "train.py"}) == "torchrun");
  CHECK(launcher_of({"env", "A=1", "accelerate", "launch", "t.py"}) == "accelerate");
  CHECK(launcher_of({"python3", "-u", "-m", "torch.distributed.run", "t.py"}) == "torch.distributed.run");
  for (const Words& none : {Words{}, Words{"./torchrun.py"}, Words{"python3", "torchrun"},
                            Words{"python3", "-m"}, Words{"python3", "-m", "pkg", "-m", "deepspeed"}})
    CHECK(launcher_of(none) == "");
}

TEST_CASE("the first line of a script says which program runs it") {
  CHECK(interpreter_of("#!/bin/sh") == Words{"/bin/sh"});
  CHECK(interpreter_of("#! /bin/sh -e\nrest") == Words{"/bin/sh", "-e"});
  CHECK(interpreter_of("#!/usr/bin/perl -w -T") ==
        Words{"/usr/bin/perl", "-w -T"});  // one word, as the kernel gives it
  CHECK(interpreter_of("#!/usr/bin/env python3") == Words{"python3"});
  CHECK(interpreter_of("#!/usr/bin/env -S python3 -u") == Words{"python3", "-u"});
  CHECK(interpreter_of("#!/usr/bin/env -Spython3") == Words{"python3"});
  // What only env itself can tell is left to it.
  for (const auto* line :
       {"#!/usr/bin/env", "#!/usr/bin/env -i python3", "#!/usr/bin/env python3 -u",
        "#!/usr/bin/env -S A=1 python3", "#!/usr/bin/env -S python3 '-u'", "#!/usr/bin/env -S ${PYTHON}"})
    CHECK(interpreter_of(line) == Words{"/usr/bin/env"});
  for (const auto* line : {"", "#", "#!", "#! ", "#!sh",
                           "\x7f"
                           "ELF",
                           "print(1)"})
    CHECK(interpreter_of(line).empty());
}
