// The words of a program, and what can be known of it before the start.
#include "cli/program.h"

#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

TEST_CASE("python programs run with python3, and -v says so, once and truly") {
  World world;
  world.executables.insert("/home/u/sheb.py");
  world.files["/bin/in_path.py"] = "";
  world.files["/home/u/bare.py"] = "import os";
  world.executables.insert("/home/u/bare.py");
  world.executables.insert("/bin/in_path.py");
  struct Row {
    Words words, argv, notes;
  };
  const Row rows[] = {
      {{"train.py", "--lr", "1"},
       {"python3", "train.py", "--lr", "1"},
       {"'train.py' is not executable: running it with python3"}},
      {{"./train.py"},
       {"python3", "./train.py"},
       {"'./train.py' is not executable: running it with python3"}},
      {{"sheb.py"}, {"python3", "sheb.py"}, {"'sheb.py' is not in PATH: running it with python3"}},
      {{"./sheb.py"}, {"./sheb.py"}, {}},
      {{"./bare.py"}, {"python3", "./bare.py"}, {"'./bare.py' has no #! line: running it with python3"}},
      {{"in_path.py"}, {"in_path.py"}, {}},
      {{"-m", "pkg.train", "-np", "3"},
       {"python3", "-m", "pkg.train", "-np", "3"},
       {"running module pkg.train with python3"}},
      {{"train.py", ":", "-np", "1", "train.py"},
       {"python3", "train.py"},
       {"'train.py' is not executable: running it with python3"}},
  };
  for (const auto& row : rows) {
    CAPTURE(row.words.front());
    for (const bool verbose : {false, true}) {
      Words words = row.words;
      words.insert(words.begin(), {"-np", "2"});
      if (verbose) words.insert(words.begin(), "-v");
      const auto request = world.read(words);
      REQUIRE(request.has_value());
      CHECK(request->job.programs[0].argv == row.argv);
      CHECK(request->notes == (verbose ? row.notes : Words{}));
    }
  }
}

TEST_CASE("a script that does not exist is not called a file that cannot be executed") {
  World world;
  for (const auto& words : {Words{"-v", "-np", "1", "nope.py"}, Words{"-v", "-np", "1", "./nope.py"}}) {
    const auto request = world.read(words);
    REQUIRE_FALSE(request.has_value());
    CHECK(exit_code_of(request.error().code) == ExitCode::not_found);
    CHECK(request.error().message.find("not found: it ") != std::string::npos);
  }
  const auto elsewhere = world.read({"-v", "-H", "gpu1", "nope.py"});  // gpu1 may have it
  REQUIRE(elsewhere.has_value());
  CHECK(elsewhere->job.programs[0].argv == Words{"/usr/bin/python3", "nope.py"});
  CHECK(elsewhere->notes.front() == "'nope.py' is not on this host: running it with python3");
}

TEST_CASE(
    "a link that leads nowhere is named with what is missing, as program, in PATH and as an interpreter") {
  World world;
  world.links = {{"/home/u/venv/bin/python", "/home/u/venv/bin/python3"},
                 {"/home/u/venv/bin/python3", "/opt/python3.10"},
                 {"/home/u/run", "/opt/run"}};
  world.files["/home/u/run.py"] = "#!/home/u/venv/bin/python\n";
  world.files["/home/u/train"] = "#!/opt/perl -w\n";
  world.environment[0].second = "/home/u/venv/bin:/usr/bin:/bin";
  const auto wrong = [&](const std::string& program) {
    const auto request = world.read({"-np", "1", program});
    REQUIRE_FALSE(request.has_value());
    CHECK(exit_code_of(request.error().code) == ExitCode::not_found);
    return request.error().message + " | " + request.error().hint;
  };
  const std::string link =
      "'/home/u/venv/bin/python' is a link to '/opt/python3.10', which does not exist | make the "
      "virtual environment anew with a Python that is there";
  CHECK(wrong("venv/bin/python") == "program " + link);
  CHECK(wrong("python") == "program " + link);
  CHECK(wrong("./run.py") == "program '/home/u/run.py' cannot run: its interpreter " + link);
  CHECK(wrong("./run") ==
        "program '/home/u/run' is a link to '/opt/run', which does not exist | mend the link");
  CHECK(wrong("./train") ==
        "program '/home/u/train' cannot run: its interpreter '/opt/perl' does not exist | fix its first "
        "line, or "
        "write the interpreter before the script");
  world.files["/home/u/train"] = "#!/usr/bin/env python3\r\n";
  CHECK(wrong("./train") ==
        "program '/home/u/train' cannot run: its lines end as in Windows | convert it: sed -i 's/\\r$//' "
        "/home/u/train");
}

TEST_CASE("a program that this host has to run and has not is found out before anything starts") {
  World world;
  const std::tuple<Words, ExitCode, std::string> rows[] = {
      {{"-np", "1", "./nope"}, ExitCode::not_found, "program '/home/u/nope' not found: it does not exist"},
      {{"-np", "1", "nope"}, ExitCode::not_found, "program 'nope' not found in PATH"},
      {{"-np", "1", "train"}, ExitCode::not_found, "program 'train' not found in PATH"},
      {{"-np", "1", "./plain.txt"},
       ExitCode::not_executable,
       "program '/home/u/plain.txt' is not executable"},
      {{"-np", "1", "./sub"}, ExitCode::not_executable, "program '/home/u/sub' is a directory"},
  };
  for (const auto& [words, code, message] : rows) {
    const auto request = world.read(words);
    REQUIRE_FALSE(request.has_value());
    CHECK(exit_code_of(request.error().code) == code);
    CHECK(request.error().message == message);
  }
  CHECK(world.read({"-H", "gpu1", "./nope"}).has_value());  // only gpu1 knows
  CHECK(world.read({"-np", "1", "python3 train.py"}).error().hint ==
        "write the program and its arguments without quotes around all of them");
  CHECK(world.read({"-np", "1", "LR=1", "python3"}).error().hint == "a variable for the ranks is -x LR=...");
}
