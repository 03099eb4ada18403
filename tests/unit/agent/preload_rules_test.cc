// What is decided about ranks that could be forked.
#include "launcher/agent/preload_rules.h"

#include <doctest/doctest.h>

using namespace trainrun;
using namespace trainrun::agent;

namespace {

wire::Preload::Program program() {
  wire::Preload::Program it;
  it.argv = {"env", "A=1", "python3", "-u", "train.py", "x"};
  it.interpreter = 2;
  it.command = 4;
  it.directory = "/w";
  it.env = {{"A", "1"}};
  return it;
}

}  // namespace

TEST_CASE("only what counts at a start must be the same for all ranks") {
  using Words = std::vector<std::string>;
  CHECK(differing_variable({"A=1"}, {"A=2", "RANK=0", "OMP_NUM_THREADS=4"}) == std::nullopt);
  CHECK(differing_variable(Words{"LD_PRELOAD=x"}, Words{"LD_PRELOAD=x"}) == std::nullopt);
  for (const char* name : {"LD_LIBRARY_PATH", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "GOMP_CPU_AFFINITY",
                           "KMP_AFFINITY", "OMP_PROC_BIND", "PYTHONHASHSEED", "LC_ALL", "LANG"}) {
    CAPTURE(name);
    const std::string word = name;
    CHECK(differing_variable(Words{}, Words{word + "=1"}) == word);
    CHECK(differing_variable(Words{word + "=1"}, Words{}) == word);
    CHECK(differing_variable(Words{word + "=1"}, Words{word + "=2"}) == word);
  }
}

TEST_CASE("a start belongs to a program by its words, its place and what all its ranks have") {
  const auto it = program();
  wire::Start order;
  order.argv = it.argv;
  order.directory = "/w";
  CHECK(is_of(it, order, {"A=1", "B=2"}));
  CHECK_FALSE(is_of(it, order, {"A=2"}));
  order.directory = "/";
  CHECK_FALSE(is_of(it, order, {"A=1"}));
}

TEST_CASE("what env sets is in the rank's environment") {
  CHECK(with_words_of_env(program(), {"A=0", "B=2"}) == std::vector<std::string>{"B=2", "A=1"});
}

TEST_CASE("the interpreter is called first with words that refuse") {
  const auto line = zygote_line(program());
  REQUIRE(line.size() == 6);
  CHECK(line[0] == "python3");
  CHECK(line[1] == "-u");
  CHECK(line[2] == "-c");
  CHECK(line[3].starts_with("raise SystemExit("));
  CHECK(line[4] == "train.py");
}

TEST_CASE("what a zygote says is not trusted") {
  CHECK(fields_of(std::string("a\0b", 3)) == std::vector<std::string>{"a", "b"});
  CHECK(fields_of("") == std::vector<std::string>{""});
  const auto good = parse_forked("12 4711");
  REQUIRE(good);
  CHECK(good->worker == WorkerId{12});
  CHECK(good->pid == 4711);
  for (const char* bad : {"", "12", "x 4711", "12 x", "12 1", "12 0", "12 -5", "12 99999999999", "12  3"})
    CHECK_FALSE(parse_forked(bad));
}
