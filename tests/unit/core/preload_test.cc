// Which command lines can be preloaded, and what hosts are told.
#include "launcher/core/preload.h"

#include <doctest/doctest.h>

#include "launcher/base/strings.h"

using namespace trainrun;
using namespace trainrun::core;

namespace {

std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> out;
  for (const auto word : split(line, ' ')) out.emplace_back(word);
  return out;
}

std::string refused(const std::string& line) { return python_command(words(line)).refused; }

JobSpec job_of(std::vector<std::string> lines) {
  JobSpec job;
  job.preload.modules = {"torch"};
  for (auto& line : lines) job.programs.push_back({.argv = words(line), .np = 1, .directory = "/w"});
  return job;
}

}  // namespace

TEST_CASE("a script, a module or code that CPython runs can be preloaded") {
  struct Row {
    const char* line;
    std::size_t interpreter, command;
  };
  for (const auto& [line, interpreter, command] :
       {Row{"python3 train.py", 0, 1}, Row{"/venv/bin/python3.11 -u -W error train.py -S", 0, 4},
        Row{"python -uWerror -Xdev train.py", 0, 3}, Row{"python3 -X importtime -m pkg.train --x", 0, 3},
        Row{"python3 -c pass", 0, 1}, Row{"/usr/bin/env A=1 B=2 python3 -O train.py", 3, 5},
        Row{"env python3 train.py", 1, 2}}) {
    CAPTURE(line);
    const auto found = python_command(words(line));
    CHECK(found.refused == "");
    CHECK(found.interpreter == interpreter);
    CHECK(found.command == command);
  }
}

TEST_CASE("what is started plainly is told, with what to write instead") {
  CHECK(refused("torchrun train.py").find("write python3 and the script") != std::string::npos);
  CHECK(refused("/opt/bin/accelerate launch train.py").find("launcher of its own") != std::string::npos);
  CHECK(refused("uv run train.py").find("python3 and the script instead") != std::string::npos);
  CHECK(refused("conda run python train.py").find("path of its environment") != std::string::npos);
  CHECK(refused("./train.py") == "write python3 before the script");
  CHECK(refused("bash start.sh") == "it is no python3 with a script, -m or -c");
  CHECK(refused("pypy3 train.py") == "it is no python3 with a script, -m or -c");
  CHECK(refused("env -i python3 train.py") == "it is no python3 with a script, -m or -c");
  CHECK(refused("python3-config --x") == "it is no python3 with a script, -m or -c");
  for (const char* line : {"python3 -I train.py", "python3 -uE train.py", "python3 -S -m x",
                           "python3 -i train.py", "python3 --version", "python3 -"})
    CHECK(refused(line).find("cannot be made to import ahead") != std::string::npos);
  CHECK(refused("python3 -um train") == "write -m as a word of its own");
  CHECK(refused("python3") == "it runs no script");
  CHECK(refused("python3 -W") == "it runs no script");
  CHECK(python_command({}).refused == "there is no program");
}

TEST_CASE("hosts are told of each program once, and of what all its ranks have") {
  auto job = job_of({"python3 a.py", "./server", "python3 a.py", "env A=2 python3 -u b.py"});
  job.programs[3].env = {{"A", "1"}, {"PYTHONUNBUFFERED", "x"}};
  job.start_timeout = seconds(7);
  const auto preload = preload_of(job);
  CHECK(preload.import_limit_ms == 7000);
  REQUIRE(preload.programs.size() == 2);
  CHECK(preload.programs[0].argv == words("python3 a.py"));
  CHECK(preload.programs[0].env == wire::EnvPairs{{"PYTHONUNBUFFERED", "1"}});
  CHECK(preload.programs[1].interpreter == 2);
  CHECK(preload.programs[1].command == 4);
  CHECK(preload.programs[1].env == wire::EnvPairs{{"PYTHONUNBUFFERED", "x"}, {"A", "2"}});
  job.env = {{"PYTHONUNBUFFERED", ""}};
  CHECK(preload_of(job).programs[0].env.empty());
}

TEST_CASE("without --preload nothing is told, and nobody complains") {
  auto job = job_of({"python3 a.py", "./server"});
  CHECK(not_preloaded(job, job.programs[1]) != "");
  job.preload = {};
  CHECK(preload_of(job).programs.empty());
  CHECK(not_preloaded(job, job.programs[1]) == "");
}
