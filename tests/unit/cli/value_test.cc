#include "cli/value.h"

#include <doctest/doctest.h>

#include "cli/env_file.h"
#include "cli/environment.h"

using namespace trainrun;
using namespace trainrun::cli;

namespace {

bool good(Option option, std::string text) {
  return check_setting({option, std::move(text), "--x"}).has_value();
}

}  // namespace

TEST_CASE("values are checked by type and range") {
  using enum Option;
  const std::tuple<Option, std::string, bool> rows[] = {
      {np, "1", true},
      {np, "1000000", true},
      {np, "0", false},
      {np, "1000001", false},
      {np, "-1", false},
      {np, "4.0", false},
      {np, " 4", false},
      {np, "4 ", false},
      {np, "0x10", false},
      {np, "1e3", false},
      {np, "99999999999999999999999", false},
      {np, "+3", false},
      {np, "", false},
      {grace, "0", true},
      {grace, "10", true},
      {grace, "1.5", true},
      {grace, "250ms", true},
      {grace, "1:30", true},
      {grace, "-1", false},
      {grace, "5 parsecs", false},
      {grace, "nan", false},
      {grace, "inf", false},
      {timeout, "0", false},
      {timeout, "1d", true},
      {timeout, "11000000000", false},
      {export_name, "BASH_FUNC_module%%", true},
      {export_name, "BASH_FUNC_a-b.c%%", true},
      {export_name, "BASH_FUNC_%%", false},
      {export_name, "BASH_FUNC_a;b%%", false},
      {export_name, "A%%", false},
      {map_by, "slot", true},
      {map_by, "node", true},
      {map_by, "host", true},
      {map_by, "ppr:2:host", true},
      {map_by, "ppr:2:node", true},
      {map_by, "ppr:0:host", false},
      {map_by, "ppr:2", false},
      {map_by, "ppr:2:socket", true},
      {map_by, "ppr:2:l3cache", true},
      {map_by, "ppr:2:board", false},
      {map_by, "core", false},
      {map_by, "ppr:99999999999:host", false},
      {bind_to, "numa", true},
      {bind_to, "NUMA", false},
      {tag, "time", false},
      {only_rank, "0", true},
      {only_rank, "0,2-3", true},
      {only_rank, "3-2", false},
      {only_rank, "0,", false},
      {only_rank, "0-999999999", false},
      {only_rank, "a", false},
      {only_rank, "1-2-3", false},
      {stdin_to, "0", true},
      {stdin_to, "all", true},
      {stdin_to, "none", true},
      {stdin_to, "-1", false},
      {events, "e.jsonl", true},
      {events, "./-", true},
      {events, "fd:3", true},
      {events, "-", false},
      {events, "fd:2", false},
      {events, "fd:x", false},
      {events, "fd:", false},
      {journal, "fd:3", true},
      {journal, "-", false},
      {port_range, "20000-20100", true},
      {port_range, "20000", true},
      {port_range, "2-1", false},
      {port_range, "0-5", false},
      {port_range, "1-65536", false},
      {ssh_port, "22", true},
      {ssh_port, "0", false},
      {ssh_port, "65536", false},
      {export_name, "A", true},
      {export_name, "_A1=", true},
      {export_name, "A=b=c\n;", true},
      {export_name, "NCCL_*", true},
      {export_name, "A*=b", false},
      {export_name, "=b", false},
      {export_name, "1A=b", false},
      {export_name, "A B=c", false},
      {export_name, "*", false},
      {network_interface, "ib0", true},
      {network_interface, "eth0;reboot", false},
      {network_interface, "averyveryverylonginterface", false},
      {agent_dir, "/opt/x", true},
      {agent_dir, "~/x", true},
      {agent_dir, "x", false},
      {agent_dir, "/a\nb", false},
      {module, "pkg.train", true},
      {module, "-c", false},
      {module, "a;b", false},
      {oversubscribe, "true", true},
      {oversubscribe, "0", true},
      {oversubscribe, "maybe", false},
      {verbose, "true", true},
      {verbose, "2", true},
      {verbose, "9", false},
      {wdir, std::string(5000, 'a'), false},
      {wdir, std::string("a\0b", 3), false},
      {hostfile, std::string(2 * 1024 * 1024, 'a'), false},
  };
  for (const auto& [option, text, expected] : rows) {
    CAPTURE(text.substr(0, 60));
    CAPTURE(info(option).name);
    CHECK(good(option, text) == expected);
  }
}

TEST_CASE("an error of a value begins with its origin and says what was expected") {
  const auto error = check_setting({Option::bind_to, "cores", "TRAINRUN_BIND_TO"}).error();
  CHECK(error.message == "TRAINRUN_BIND_TO: 'cores' is not one of none, core, l3cache, numa, socket, auto");
  CHECK(error.hint == "did you mean core?");
  CHECK(error.code == Code::config);
  CHECK(check_setting({Option::np, "x", "-np"}).error().code == Code::usage);
}

TEST_CASE("what may be the value of a variable is not told") {
  const auto wrong = check_setting({Option::export_name, "MY-KEY=sekret", "-x"});
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message.starts_with("-x: 'MY-KEY'=... is not NAME"));
}

TEST_CASE("lists of ranks come back sorted and each once") {
  CHECK(parse_ranks("3,0-1,1").value() == std::vector<int>{0, 1, 3});
}

TEST_CASE("the environment gives settings, and a surrounding job's worker variables are none") {
  const auto layer = read_environment({{"TRAINRUN_GRACE", "5s"},
                                       {"TRAINRUN_HOSTS", "a:2"},
                                       {"TRAINRUN_EXPORT", "A, B=1"},
                                       {"TRAINRUN_TAG", ""},
                                       {"TRAINRUN_RANK", "3"},
                                       {"TRAINRUN_SIZE", "8"},
                                       {"TRAINRUN_HOST", "gpu1"},
                                       {"TRAINRUN_LOCAL_RANK", "1"},
                                       {"TRAINRUN_WORKER", "8"},
                                       {"TRAINRUN_JOB_ID", "0123"},
                                       {"TRAINRUN_FAULT", "a=fail"},
                                       {"TRAINRUN_RENDEZVOUS", "127.0.0.1:1"},
                                       {"PATH", "/bin"}});
  const std::vector<Setting> expected = {{Option::grace, "5s", "TRAINRUN_GRACE"},
                                         {Option::host, "a:2", "TRAINRUN_HOSTS"},
                                         {Option::export_name, "A", "TRAINRUN_EXPORT"},
                                         {Option::export_name, "B=1", "TRAINRUN_EXPORT"}};
  CHECK(layer.settings == expected);
  CHECK(layer.notes.empty());
}

TEST_CASE("a variable of ours that is no setting is told, with the nearest one") {
  const auto layer = read_environment({{"TRAINRUN_GRCE", "3"},
                                       {"TRAINRUN_HOST", "gpu1"},
                                       {"TRAINRUN_SOMETHING_ELSE", "3"},
                                       {"TRAINRUN_JOB_ID", "0123"},
                                       {"TRAINRUN_FAILED_HOSTS", "a"},
                                       {"TRAINRUN_REQUIRE", "1"}});
  CHECK(layer.settings.empty());
  CHECK(layer.notes ==
        std::vector<std::string>{"TRAINRUN_GRCE is not a trainrun setting (did you mean TRAINRUN_GRACE?)",
                                 "TRAINRUN_HOST is not a trainrun setting (did you mean TRAINRUN_HOSTS?)",
                                 "TRAINRUN_SOMETHING_ELSE is not a trainrun setting"});
}

TEST_CASE("an env file has NAME=VALUE lines and errors name the line") {
  const auto read = read_env_file("# c\n\nA=1\nexport B='x y'\r\nA=2\nC=\"#\"\nD=\n", "e");
  const std::vector<EnvVar> expected = {{"A", "2"}, {"B", "x y"}, {"C", "#"}, {"D", ""}};
  REQUIRE(read.has_value());
  CHECK(*read == expected);
  const auto by_hand = read_env_file(
      "\xEF\xBB\xBF"
      "export\tA=1\nexporter=2\n",
      "e");
  REQUIRE_MESSAGE(by_hand, (by_hand ? "" : by_hand.error().message));
  CHECK(*by_hand == std::vector<EnvVar>{{"A", "1"}, {"exporter", "2"}});
  CHECK(read_env_file("A=1\nnonsense\n", "e").error().message == "e:2: the line is not NAME=VALUE");
  for (const std::string line :
       {"MY-KEY=sekret", "KEY = sekret", "KEY: sekret", "KEY\tsekret", "sekret", "+sekret="})
    CHECK(read_env_file(line, "e").error().message.find("sekret") == std::string::npos);
  CHECK_FALSE(read_env_file(std::string("A=\0", 3), "e").has_value());
  CHECK_FALSE(read_env_file("1A=2", "e").has_value());
  const std::string longest(131069, 'x');  // with A=
  CHECK(read_env_file("A='" + longest + "'", "e").has_value());
  CHECK(read_env_file("B=\nA=x" + longest, "e").error().message ==
        "e:2: A has 131072 bytes with its name, and no program can be started with more than 131071");
}
