#include "cli/config_file.h"

#include <doctest/doctest.h>

using namespace trainrun;
using namespace trainrun::cli;

namespace {

std::string error_of(std::string_view text) {
  const auto read = read_config_file(text, "job.toml");
  return read ? "no error"
              : read.error().message + (read.error().hint.empty() ? "" : " | " + read.error().hint);
}

}  // namespace

TEST_CASE("a file sets options, the environment and the program, each with its place") {
  const auto read = read_config_file(R"(np = 4
hosts = ["gpu1:2", "gpu2:2"]
command = ["python3", "train.py", "--epochs", 3]
[limits]
grace = 5
timeout = "2h"
start_timeout = 1.5
[io]
only_rank = [0, 2]
timestamp = true
stdin = "none"
[environment]
forward = ["WANDB_API_KEY", "MY_*"]
[env]
OMP_NUM_THREADS = 4
NAME = "a b"
)",
                                     "job.toml");
  REQUIRE(read.has_value());
  const auto has = [&](Option option, std::string_view value, std::string_view origin) {
    for (const auto& setting : read->settings) {
      if (setting.option == option && setting.value == value && setting.origin == origin) return true;
    }
    return false;
  };
  CHECK(has(Option::np, "4", "job.toml:1:6"));
  CHECK(has(Option::host, "gpu1:2,gpu2:2", "job.toml:2:9"));
  CHECK(has(Option::grace, "5", "job.toml:5:9"));
  CHECK(has(Option::timeout, "2h", "job.toml:6:11"));
  CHECK(has(Option::start_timeout, "1.5", "job.toml:7:17"));
  CHECK(has(Option::only_rank, "0,2", "job.toml:9:13"));
  CHECK(has(Option::timestamp, "true", "job.toml:10:13"));
  CHECK(has(Option::stdin_to, "none", "job.toml:11:9"));
  CHECK(has(Option::export_name, "MY_*", "job.toml:13:11"));
  CHECK(has(Option::export_name, "OMP_NUM_THREADS=4", "job.toml:15:19"));
  CHECK(has(Option::export_name, "NAME=a b", "job.toml:16:8"));
  CHECK(read->settings.size() == 12);
  REQUIRE(read->programs.size() == 1);
  CHECK(read->programs[0].program == std::vector<std::string>{"python3", "train.py", "--epochs", "3"});
}

TEST_CASE("several programs are an array of tables") {
  const auto read = read_config_file(
      "[[program]]\nnp = 1\ncommand = [\"./s\"]\n[[program]]\nnp = 7\nmodule = \"c\"\nwdir = \"/w\"\nenv = { "
      "A = \"1\" }\n",
      "j");
  REQUIRE(read.has_value());
  REQUIRE(read->programs.size() == 2);
  CHECK(read->programs[0].program == std::vector<std::string>{"./s"});
  CHECK(read->programs[1].settings.size() == 4);
}

TEST_CASE("errors of a file say line and column and what was expected") {
  const std::pair<std::string_view, std::string> rows[] = {
      {"nq = 4", "job.toml:1:1: unknown key 'nq' | man trainrun-hosts lists the keys"},
      {"host = 4", "job.toml:1:1: unknown key 'host' | it is written hosts"},
      {"[limit]\ngrace = 5", "job.toml:1:2: unknown key 'limit' | did you mean limits?"},
      {"\n  grace = 5", "job.toml:2:3: unknown key 'grace' | it is written limits.grace"},
      {"ssh-port = 5", "job.toml:1:1: unknown key 'ssh-port' | it is written connect.ssh_port"},
      {"[limits]\ngarce = 5", "job.toml:2:1: unknown key 'limits.garce' | did you mean limits.grace?"},
      {"np = \"4\"", "job.toml:1:6: np must be a whole number, as in np = 2"},
      {"np = 0", "job.toml:1:6: np: '0' is not a whole number from 1 to 1000000"},
      {"np = -1", "job.toml:1:6: np: '-1' is not a whole number from 1 to 1000000"},
      {"np = 4.0", "job.toml:1:6: np must be a whole number, as in np = 2"},
      {"np = [4]", "job.toml:1:6: np must be a whole number, as in np = 2"},
      {"hosts = 3", "job.toml:1:9: hosts must be a string or an array of strings, not an integer"},
      {"hosts = [\"a\", 3]", "job.toml:1:15: hosts must be a string or an array of strings, not an integer"},
      {"[elastic]\nmin-np = 3", "job.toml:2:1: unknown key 'elastic.min-np' | it is written elastic.min_np"},
      {"[elastic]\nreset_limit = 1.5",
       "job.toml:2:15: elastic.reset_limit must be an integer or a string, not a number"},
      {"[elastic]\nreset_limit = \"x\"",
       "job.toml:2:15: elastic.reset_limit: 'x' is not a number of restarts, as in 3, or 3/10m: 3 within 10 "
       "minutes"},
      {"[elastic]\nblacklist_cooldown_range = [1]",
       "job.toml:2:28: elastic.blacklist_cooldown_range must be two times, as in [10, \"5m\"] or \"10 300\", "
       "not an array"},
      {"[elastic]\nblacklist_cooldown_range = [10, true]",
       "job.toml:2:33: elastic.blacklist_cooldown_range must be two times, as in [10, \"5m\"] or \"10 300\", "
       "not true or false"},
      {"[elastic]\nblacklist_cooldown_range = [10, 5]",
       "job.toml:2:28: elastic.blacklist_cooldown_range: '10 5' is not two times, the shorter one first, as "
       "in "
       "10 300"},
      {"limits = 3", "job.toml:1:10: limits must be a table, not an integer"},
      {"[io]\ntimestamp = 1", "job.toml:2:13: io.timestamp must be true or false, not an integer"},
      {"[io]\ntag = \"ranks\"",
       "job.toml:2:7: io.tag: 'ranks' is not one of none, rank, host | did you mean rank?"},
      {"[limits]\ngrace = 1979-05-27",
       "job.toml:2:9: limits.grace must be seconds, or a string such as \"90s\", not a date or time"},
      {"command = \"./t\"",
       "job.toml:1:11: command must be an array of words | write it as [\"python3\", \"train.py\", "
       "\"--epochs\", \"3\"]; no shell reads it"},
      {"command = [[\"a\"]]", "job.toml:1:12: command must be an array of strings, not an array"},
      {"command = [\"a\\u0000b\"]", "job.toml:1:12: a word of command holds a NUL byte"},
      {"[env]\n\"A B\" = \"1\"",
       "job.toml:2:1: 'A B' is not the name of a variable | names have letters, digits and _ and begin with "
       "no digit"},
      {"[env]\nA = 1.5", "job.toml:2:5: env.A must be a string, not a number"},
      {"env = 3", "job.toml:1:7: env must be a table of NAME = \"VALUE\", not an integer"},
      {"program = 3", "job.toml:1:11: program must be an array of tables, [[program]], not an integer"},
      {"[[program]]\ngrace = 3",
       "job.toml:2:1: unknown key 'grace' of a program | a program has np, command or module, hosts, wdir, "
       "env and "
       "forward"},
      {"command = [\"a\"]\n[[program]]\ncommand = [\"b\"]",
       "job.toml:1:11: command or module, and [[program]] as well | keep one of them"},
  };
  for (const auto& [text, expected] : rows) CHECK(error_of(text) == expected);
  CHECK(error_of("np = 1\n[[[x]]]\n") == "job.toml:2:3: expected a key");
  CHECK(error_of("np = 1\n\n[=]\n") == "job.toml:3:2: expected a key");
  CHECK(error_of("np = ").starts_with("job.toml:1:"));
  CHECK(error_of("np = 1\nnp = 2").starts_with("job.toml:2:"));
}

TEST_CASE("letters beyond ASCII in keys are errors in their place") {
  for (const std::string key : {"gr\xc3\xb6\xc3\x9f"
                                "e",
                                "\xc2\xac", "x\xd2\x99", "a\xe3\x80\x81", "b\xef\xbb\xbe"}) {
    CAPTURE(key);
    const auto file = read_config_file("np = 1\n" + key + " = 1\n", "job.toml");
    REQUIRE_FALSE(file.has_value());
    CHECK(file.error().message.starts_with("job.toml:2:"));
  }
}

TEST_CASE("what the parser of the file says about it is one printable line") {
  for (const std::string text : {"np = t\n", "np = \x1b\n", "np = \xc2\x9b", "\x1b[2J = 1\n"}) {
    const auto file = read_config_file(text, "job.toml");
    REQUIRE_FALSE(file.has_value());
    CHECK(file.error().message.starts_with("job.toml:1:"));
    CHECK(file.error().message.find_first_of("\n\x1b\x9b") == std::string::npos);
  }
}

TEST_CASE("hostile files are errors, not crashes") {
  for (const auto& text :
       {std::string("\0", 1), std::string("np = 99999999999999999999999"), std::string(2 * 1024 * 1024, 'a'),
        std::string(100000, '['), std::string("a = ") + std::string(100000, '['), std::string("\xff\xfe"),
        std::string("np = \"") + std::string(100000, 'x'), std::string("= 3"), std::string("[[[["),
        std::string("a.b.c.d.e.f = {a={b={c={}}}}"), std::string("np = '\n'")}) {
    CHECK_FALSE(read_config_file(text, "job.toml").has_value());
  }
}

TEST_CASE("a key of very many parts is refused before it is taken apart") {
  const auto parts = [](std::size_t count) {
    std::string key = "a";
    for (std::size_t i = 1; i < count; ++i) key += ".a";
    return key;
  };
  const std::string said =
      " a key of more than 8 parts | man trainrun-hosts lists the keys: none has more than 2";
  CHECK(error_of(parts(200'000) + " = 1\n") == "job.toml:1:" + said);
  CHECK(error_of("np = 2\n\n[" + parts(200'000) + "]\n") == "job.toml:3:" + said);
  CHECK(error_of("[[" + parts(9) + "]]\n") == "job.toml:1:" + said);
  CHECK(error_of("x = {" + parts(9) + " = 1}\n") == "job.toml:1:" + said);
  CHECK(error_of("'a' . \"a\\\"\" ." + parts(9) + " = 1\n") == "job.toml:1:" + said);
  CHECK(error_of(parts(8) + " = 1\n").find("unknown key") != std::string::npos);
  const std::string dots = std::string(300, '.');
  CHECK(error_of("# " + dots + "\nwdir = \"" + dots + "\"  # " + dots + "\n") == "no error");
  CHECK(error_of("wdir = '" + dots + "'\ncommand = [\"a\\\"" + dots + "\", '''\n" + dots + "''', \"\"\"\n" +
                 dots + "\"\"\"]\n") == "no error");
}
