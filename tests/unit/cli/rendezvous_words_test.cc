#include "cli/rendezvous_words.h"

#include <doctest/doctest.h>

#include "cli/subcommands.h"

using namespace trainrun;
using namespace trainrun::cli;

namespace {

using Words = std::vector<std::string>;

std::string read(const Words& words) {
  const auto parsed = parse_rendezvous(words);
  if (!parsed) {
    CHECK(parsed.error().code == Code::usage);
    CHECK_FALSE(parsed.error().hint.empty());
    return parsed.error().message;
  }
  if (!*parsed) return "help";
  const auto& [np, bind, key_file, timeout] = **parsed;
  return std::to_string(np) + " " + bind + " " + key_file + (timeout ? " " + format_duration(*timeout) : "");
}

}  // namespace

TEST_CASE("the words of a rendezvous are spelled as those of a job") {
  const std::pair<Words, std::string> rows[] = {
      {{"--np", "2"}, "2 127.0.0.1:0 "},
      {{"-np=2", "-n", "3"}, "3 127.0.0.1:0 "},
      {{"--np=2", "--bind", "[fd00::1]:0", "--key_file=/k", "-timeout", "5m"}, "2 [fd00::1]:0 /k 5m00s"},
      {{"--np", "x", "-h"}, "help"},
      {{"--bind", "a", "--help"}, "help"},
      {{}, "rendezvous: --np is missing: how many members are there?"},
      {{"--np", "0"}, "rendezvous: --np '0': expected 1 to 131072"},
      {{"--np"}, "rendezvous: --np needs a value"},
      {{"--np", "--bind", "a"}, "rendezvous: --np needs a value, but the next word is '--bind'"},
      {{"--np", "2", "./t"}, "rendezvous: './t' is one word too many"},
      {{"--np", "2", "--keyfile", "k"}, "rendezvous: unknown flag '--keyfile'"},
      {{"--np", "2", "--", "k"}, "rendezvous: unknown flag '--'"},
  };
  for (const auto& [words, expected] : rows) CHECK(read(words) == expected);
}

TEST_CASE("the help of a subcommand names each of its flags, in lines that fit") {
  for (const auto& [line, help] :
       {std::pair(&ctl_line(), ctl_help()), std::pair(&rendezvous_line(), rendezvous_help()),
        std::pair(&completion_line(), completion_help()), std::pair(&replay_line(), replay_help())}) {
    for (const auto& flag : line->flags)
      CHECK(help.find("\n  " + std::string(flag.name)) != std::string::npos);
    std::size_t from = 0;
    for (std::size_t end = 0; (end = help.find('\n', from)) != std::string::npos; from = end + 1)
      CHECK(end - from <= 92);
  }
}
