#include "cli/ctl_words.h"

#include <doctest/doctest.h>

#include "cli/subcommands.h"

namespace trainrun::cli {
namespace {

using Words = std::vector<std::string>;
using Kind = control::Command::Kind;
using Action = CtlWords::Action;

CtlWords asks(control::Command command, std::string job = {}, bool json = false) {
  return {Action::ask, std::move(command), std::move(job), json};
}

TEST_CASE("every command of ctl, and its flags anywhere") {
  const Host gpu9{.name = "gpu9", .slots = 8, .slots_given = true};
  const std::vector<std::pair<Words, CtlWords>> table{
      {{"world"}, asks({Kind::world})},
      {{"--json", "world"}, asks({Kind::world}, "", true)},
      {{"world", "--job", "0a1f"}, asks({Kind::world}, "0a1f")},
      {{"-job=0a1f", "end"}, asks({Kind::end}, "0a1f")},
      {{"remove", "gpu2"}, asks({Kind::remove_host, {.name = "gpu2"}})},
      {{"add", "gpu9:8", "--job=0a"}, asks({Kind::add_host, gpu9}, "0a")},
      {{"restart"}, asks({Kind::restart_world})},
      {{"--force", "restart"}, asks({Kind::restart_world, {}, 0, true})},
      {{"restart", "3"}, asks({Kind::restart_worker, {}, 3})},
      {{"stop", "0"}, asks({Kind::stop_worker, {}, 0})},
      {{"list", "--json"}, {Action::list, {}, "", true}},
      {{"--help"}, {}},
      {{"world", "-h"}, {}},
  };
  for (const auto& [words, expected] : table) {
    CAPTURE(words.front());
    const auto parsed = parse_ctl(words);
    REQUIRE(parsed.has_value());
    CHECK(*parsed == expected);
  }
}

TEST_CASE("what is wrong with the words is said, with what to try") {
  const std::vector<std::tuple<Words, std::string, std::string>> table{
      {{}, "needs a command", "one of world, add, remove, restart, stop, end, list"},
      {{"wrold"}, "no command 'wrold'", "did you mean world?"},
      {{"xyzzy"}, "no command 'xyzzy'", "one of world"},
      {{""}, "no command ''", "one of world"},
      {{"world", "3"}, "'3' is one word too many", "--help"},
      {{"restart", "3", "4"}, "'4' is one word too many", "--help"},
      {{"stop"}, "stop needs RANK", "--help"},
      {{"add"}, "add needs HOST[:SLOTS]", "--help"},
      {{"stop", "-1"}, "no flag '-1'", "--help"},
      {{"stop", "three"}, "'three' is not a rank", "ctl world"},
      {{"restart", "2147483648"}, "'2147483648' is not a rank", "ctl world"},
      {{"add", "gpu[1-4]"}, "not one host", "one by one"},
      {{"add", "a;b"}, "a;b", ""},
      {{"remove", "gpu2:8"}, "more than a name", "write gpu2"},
      {{"--jbo", "1", "world"}, "no flag '--jbo'", "did you mean --job?"},
      {{"--json=yes", "world"}, "no flag '--json=yes'", "did you mean --json?"},
      {{"world", "--job"}, "--job needs", "ctl list"},
      {{"world", "--job", ""}, "--job ''", "ctl list"},
      {{"world", "--job", "../../x"}, "0-9 and a-f", "ctl list"},
      {{"list", "--job", "0a"}, "does not go with it", "--help"},
  };
  for (const auto& [words, message, hint] : table) {
    CAPTURE(message);
    const auto parsed = parse_ctl(words);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code == Code::usage);
    CAPTURE(parsed.error().message);
    CAPTURE(parsed.error().hint);
    CHECK(parsed.error().message.find(message) != std::string::npos);
    CHECK(parsed.error().hint.find(hint) != std::string::npos);
  }
}

TEST_CASE("the help names every command and flag, within 80 columns") {
  const auto help = ctl_help();
  for (const auto* word : {"world", "add HOST[:SLOTS]", "remove HOST", "restart [RANK]", "stop RANK", "end",
                           "list", "--job", "--json", "--help"})
    CHECK(help.find(std::string("  ") + word) != std::string::npos);
  std::size_t from = 0;
  for (std::size_t end = 0; (end = help.find('\n', from)) != std::string::npos; from = end + 1)
    CHECK(end - from <= 80);
}

}  // namespace
}  // namespace trainrun::cli
