#include "launcher/core/script.h"

#include <doctest/doctest.h>

using trainrun::core::script_of;
using Words = std::vector<std::string>;

TEST_CASE("the script of an interpreter is its first argument, unless that is an option") {
  CHECK(script_of({"python3", "train.py", "--epochs", "3"}) == "train.py");
  CHECK(script_of({"/opt/venv/bin/python3.11", "/code/train.py"}) == "/code/train.py");
  CHECK(script_of({"python", "."}) == ".");
  for (const Words& none :
       {Words{"python3"}, Words{"python3", "-m", "train"}, Words{"python3", "-u", "train.py"},
        Words{"python3", ""}, Words{"python3-config", "train.py"}, Words{"./train", "train.py"}, Words{}})
    CHECK(script_of(none).empty());
}
