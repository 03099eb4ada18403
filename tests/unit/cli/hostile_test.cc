// Five hundred bad command lines, variables and files: each is an error with words, exit 2, and nothing else
// happens.
#include <doctest/doctest.h>

#include "cli/options.h"
#include "launcher/base/exit_code.h"
#include "launcher/base/strings.h"
#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

namespace {

const std::vector<std::string>& bad_values() {
  static const std::vector<std::string> values = {"",
                                                  "-",
                                                  "--",
                                                  "-rf",
                                                  "--option",
                                                  ";reboot",
                                                  "$(reboot)",
                                                  "`reboot`",
                                                  "a|b",
                                                  "a&b",
                                                  "a>b",
                                                  "a b",
                                                  "a\nb",
                                                  "a\rb",
                                                  "a\tb",
                                                  "'",
                                                  "\"",
                                                  "\\",
                                                  "\x1b[2J",
                                                  "\x7f",
                                                  std::string("a\0b", 3),
                                                  std::string("\0", 1),
                                                  "99999999999999999999999999",
                                                  "-1",
                                                  "0x7fffffff",
                                                  "1e309",
                                                  "*",
                                                  "..",
                                                  "%n%s",
                                                  "{}",
                                                  "[",
                                                  "]",
                                                  "a[1-",
                                                  "a[1-99999999999]",
                                                  "::::",
                                                  ":",
                                                  "=",
                                                  ",,",
                                                  "\xff\xfe",
                                                  std::string(1024 * 1024, 'A'),
                                                  std::string(200000, ','),
                                                  "ssh://",
                                                  "a:0",
                                                  "a:-1",
                                                  "a@b@c"};
  return values;
}

}  // namespace

TEST_CASE("hostile values of every checked flag, variable and key are errors with exit 2") {
  using enum Option;
  int tried = 0;
  for (const auto option : {np,
                            host,
                            hosts_from,
                            slots_per_host,
                            ppn,
                            map_by,
                            bind_to,
                            cpus_per_rank,
                            gpus_per_rank,
                            module,
                            preload,
                            env,
                            tag,
                            compat,
                            only_rank,
                            stdin_to,
                            timeout,
                            start_timeout,
                            grace,
                            host_timeout,
                            transport,
                            ssh_port,
                            network_interface,
                            master_port,
                            port_range}) {
    for (const auto& value : bad_values()) {
      // these are names, if odd ones
      const bool a_host = value == "0x7fffffff" || value == "1e309" || value == "99999999999999999999999999";
      const bool an_interface =
          value == "0x7fffffff" || value == "1e309" || value == "a:0" || value == "a:-1" || value == "a@b@c";
      if ((option == host && a_host) || (option == network_interface && an_interface)) continue;
      CAPTURE(info(option).name);
      CAPTURE(quoted(value));
      World by_flag;
      const auto flag = by_flag.read({std::string(info(option).name), value, "./train"});
      ++tried;
      REQUIRE_FALSE(flag.has_value());
      CHECK(exit_code_of(flag.error().code) == ExitCode::usage);
      CHECK_FALSE(flag.error().message.empty());
      CHECK(flag.error().message.size() < 1000);
      CHECK(flag.error().message.find('\n') == std::string::npos);
      CHECK(flag.error().message.find('\x1b') == std::string::npos);
      if (value.empty() || option == module) continue;
      World by_variable;
      by_variable.environment.emplace_back(info(option).environment(), value);
      const auto variable = by_variable.read({"./train"});
      ++tried;
      REQUIRE_FALSE(variable.has_value());
      CHECK(exit_code_of(variable.error().code) == ExitCode::usage);
      CHECK(variable.error().message.size() < 1000);
    }
  }
  CHECK(tried >= 500);
}

TEST_CASE("hostile flags before the program are never taken as the program") {
  for (const auto& value : bad_values()) {
    World world;
    CAPTURE(quoted(value));
    if (value != "-") CHECK_FALSE(world.read({"-" + value, "./train"}).has_value());  // "--" ends the flags
    CHECK_FALSE(world.read({"--" + value + "x=", "./train"}).has_value());
    CHECK_FALSE(world.read({"--np" + value + "9z", "./train"}).has_value());
  }
}

TEST_CASE("no bytes in a configuration file crash the reader") {
  const std::string good =
      "np = 4\nhosts = [\"a:2\"]\n[limits]\ngrace = \"5s\"\n[[program]]\ncommand = [\"x\"]\n";
  const auto read = [](const std::string& text) {
    World world;
    world.files["/home/u/j.toml"] = text;
    const auto request = world.read({"--config", "j.toml"});
    if (request) return true;  // the change hit a comment or a name
    const auto code = exit_code_of(request.error().code);
    return code == ExitCode::usage || code == ExitCode::not_found;
  };
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char c : {'\0', '"', '[', ']', '=', '\n', '.', '\xff', '{', '#'}) {
      std::string text = good;
      text[i] = c;
      CHECK(read(text));
    }
    CHECK(read(good.substr(0, i)));
  }
}
