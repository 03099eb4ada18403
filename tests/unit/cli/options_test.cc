#include "cli/options.h"

#include <doctest/doctest.h>

#include <set>

#include "cli/completion.h"
#include "cli/subcommands.h"
#include "cli/usage.h"
#include "launcher/base/strings.h"

using namespace trainrun;
using namespace trainrun::cli;

TEST_CASE("the table has each option once, in order, and no spelling twice") {
  std::set<std::string> spellings, tomls, variables;
  for (const auto& row : options()) {
    CHECK(info(row.option).name == row.name);
    CHECK(spellings.insert(std::string(row.name)).second);
    for (const auto alias : row.aliases) CHECK(spellings.insert(std::string(alias)).second);
    if (!row.toml.empty()) CHECK(tomls.insert(std::string(row.toml)).second);
    if (!row.environment().empty()) CHECK(variables.insert(row.environment()).second);
    CHECK(row.takes_value() == (!row.value_name.empty() && row.type != Type::topic));
    CHECK_FALSE(row.help.empty());
  }
}

TEST_CASE("a file and the environment can set everything but what asks for help or names the file") {
  std::set<std::string> without_toml, without_variable;
  for (const auto& row : options()) {
    if (row.toml.empty()) without_toml.insert(std::string(row.name));
    if (row.environment().empty()) without_variable.insert(std::string(row.name));
  }
  CHECK(without_toml ==
        std::set<std::string>{"--compat-cli", "--config", "--help", "--print-options", "--version"});
  CHECK(without_variable == std::set<std::string>{"--help", "--module", "--print-options", "--version"});
}

TEST_CASE("the short help fits on one screen and has six lines to copy") {
  const std::string help = short_help();
  const auto lines = split(trim(help), '\n');
  CHECK(lines.size() <= 24);
  int copied = 0;
  for (const auto line : lines) {
    CHECK(line.size() <= 80);
    copied += line.starts_with("  trainrun ") ? 1 : 0;
  }
  CHECK(copied == 6);
}

TEST_CASE("the long help and the completions name every option that is not hidden") {
  const std::string bash = completion("bash").value(), zsh = completion("zsh").value(),
                    fish = completion("fish").value();
  for (const auto& row : options()) {
    const std::string name(row.name);
    CAPTURE(name);
    const bool there = !row.hidden;
    CHECK((long_help().find(name) != std::string::npos) == there);
    CHECK((bash.find(name) != std::string::npos) == there);
    const bool equals = row.takes_value() && !row.takes_two_words();
    CHECK((zsh.find("'*" + name + (equals ? "=[" : "[")) != std::string::npos) == there);
    CHECK((fish.find(" -l " + name.substr(2) + " ") != std::string::npos) == there);
  }
  for (const auto& script : {bash, zsh, fish}) {
    CHECK(script.find("world add remove") != std::string::npos);
    for (const auto* line : {&ctl_line(), &rendezvous_line(), &replay_line()}) {
      for (const auto& flag : line->flags) {
        CAPTURE(flag.name);
        const std::string name(flag.name);
        CHECK((script.find(" " + name) != std::string::npos || script.find("'" + name) != std::string::npos ||
               script.find("(" + name) != std::string::npos));
      }
    }
  }
  CHECK_FALSE(completion("tcsh").has_value());
  CHECK_FALSE(completion("").has_value());
}
