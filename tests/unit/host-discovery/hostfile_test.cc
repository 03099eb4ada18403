#include "host-discovery/hostfile.h"

#include <doctest/doctest.h>

#include <string>

namespace trainrun::hosts {
namespace {

TEST_CASE("each dialect of host file gives the same hosts") {
  const std::vector<Host> expected{{.name = "gpu1", .slots = 8, .slots_given = true},
                                   {.name = "gpu2", .user = "bob", .slots = 4, .slots_given = true}};
  for (const std::string content : {
           "gpu1 slots=8\nbob@gpu2 slots=4\n",                                // mpirun
           "gpu1 slots = 8 max_slots = 8\ngpu2 slots= 4 username=bob\n",      //
           "gpu1 cpu=8 # comment\ngpu2 count=4 user_name=bob max-slots=5\n",  //
           "gpu1:8\ngpu2:4 user=bob binding=rr\n",                            // Hydra
           "# first\n\ngpu1 slots=8\n\n  bob@gpu2 slots=4  \n",               // horovodrun, DeepSpeed
           "gpu1\tslots=8\r\n\r\nbob@gpu2 slots=4\r\n",                       // from Windows
           "\xEF\xBB\xBFgpu1 slots=8\nbob@gpu2 slots=4",                      // no last newline
           "gpu1 slots=8#eight\nbob@gpu2 slots=4// four\n#end",               // no blank before comments
           "// first\ngpu1 slots=8 // eight\n/* two\nlines */ bob@gpu2 /* in */ slots=4"  //
       }) {
    CAPTURE(content);
    const auto hosts = parse_hostfile(content, "hosts");
    REQUIRE_MESSAGE(hosts.has_value(), (hosts ? "" : hosts.error().message));
    CHECK(*hosts == expected);
  }
}

TEST_CASE("port, user and identity are a matter of each host") {
  const auto hosts = parse_hostfile(
      "ssh://root@203.0.113.7:41022 slots=1 identity=~/.ssh/rented\n"
      "203.0.113.8 port=41023 user=root slots=2 identity_file=/k/id\n"
      "node[01-02] slots=8 port=2222\n"
      "[fd00::5] slots=3\n"
      "plain\n",
      "hosts");
  REQUIRE(hosts.has_value());
  const std::vector<Host> expected{
      {.name = "203.0.113.7",
       .user = "root",
       .port = 41022,
       .identity = "~/.ssh/rented",
       .slots = 1,
       .slots_given = true},
      {.name = "203.0.113.8",
       .user = "root",
       .port = 41023,
       .identity = "/k/id",
       .slots = 2,
       .slots_given = true},
      {.name = "node01", .port = 2222, .slots = 8, .slots_given = true},
      {.name = "node02", .port = 2222, .slots = 8, .slots_given = true},
      {.name = "fd00::5", .slots = 3, .slots_given = true},
      {.name = "plain"},
  };
  CHECK(*hosts == expected);
}

TEST_CASE("a repeated host stays repeated: a file of one line a slot is read") {
  CHECK(parse_hostfile("n1\nn1\nn2\n", "hosts")->size() == 3);
}

TEST_CASE("no rank is to run on a host without slots: it is left out") {
  const auto hosts =
      parse_hostfile("a slots=0\nb slots=2\nc:0 user=bob\n[fd00::5]:0\nd count=0\ne\n", "hosts");
  REQUIRE(hosts.has_value());
  const std::vector<Host> expected{{.name = "b", .slots = 2, .slots_given = true}, {.name = "e"}};
  CHECK(*hosts == expected);
}

TEST_CASE("all lines that are wrong are told at once, up to a bound") {
  const auto error = parse_hostfile("a slots=x\nb slots=2\nc slots=-1\n", "hosts");
  REQUIRE_FALSE(error.has_value());
  CHECK(error.error().message ==
        "hosts:1: slots='x' is not a number from 0 to 65535; hosts:3: slots='-1' is not a number from 0 to "
        "65535");
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "a slots=-1\n";
  const auto text = parse_hostfile(many, "hosts").error().message;
  CHECK(text.find("hosts:5: ") != std::string::npos);
  CHECK(text.find("hosts:6: ") == std::string::npos);
  CHECK(text.ends_with("; there may be more"));
}

TEST_CASE("an error names file and line and what was expected") {
  struct Row {
    std::string content, message, hint;
  };
  const Row table[] = {
      {"a slots=2\nb slots=x\n", "hosts:2: slots='x' is not a number from 0 to 65535", ""},
      {"a slots=0\nb:0\n", "hosts: no host has a slot", "gpu1 slots=8"},
      {"a slots=", "hosts:1: slots='' is not", ""},
      {"a slots", "hosts:1: 'slots' where key=value was expected", "gpu1 slots=8"},
      {"a sluts=2", "hosts:1: 'sluts' is not known", "did you mean slots=?"},
      {"a wxyzwxyz=2", "hosts:1: 'wxyzwxyz' is not known", "slots="},
      {"a slots=2 slots=2", "hosts:1: slots= is given twice", ""},
      {"a:2 slots=2", "hosts:1: the slots are given twice", ""},
      {"a slots=4 max_slots=2", "hosts:1: 4 slots, but at most 2", ""},
      {"node{1..4} slots=2", "hosts:1: 'node{1..4}': braces are a shell's", "write node[1-4]"},
      {"a b", "hosts:1: 'b' where key=value was expected", "one host a line"},
      {"a,b", "hosts:1: 'a,b': ',' cannot be in a host name", ""},
      {"bob@a user=eve", "hosts:1: two users, 'bob' and 'eve'", ""},
      {"a user=-x", "hosts:1: '-x': not a user name", ""},
      {"ssh://a:1 port=2", "hosts:1: two ports, 1 and 2", ""},
      {"a port=70000", "hosts:1: port='70000' is not", ""},
      {"a identity=", "hosts:1: identity='' is empty", ""},
      {"a identity=x\x01y", "control characters", ""},
      {"\n\n^a\n", "hosts:3: '^a': '^' cannot be", ""},
      {"+n0\n", "hosts:1: '+n0': '+' cannot be", ""},
      {"a;\n", "hosts:1: 'a;': ';' cannot be", ""},
      {"a\rb\n", "hosts:1: ", ""},
      {"a\n/* never\nclosed", "hosts:2: '/*' without its '*/'", ""},
      {std::string("a\nb\0c\n", 6), "hosts:2: a NUL byte", "UTF-8"},
      {"", "hosts: names no host", "gpu1 slots=8"},
      {"# only\n\n// comments\n", "hosts: names no host", "gpu1 slots=8"},
      {"a\n" + std::string(1 << 20, 'x') + "\n", "hosts:2: a line of more than 65536 bytes", ""},
      {std::string((4 << 20) + 1, '\n'), "hosts: longer than 4 MiB", ""},
      {"n[1-65536]\nm\n", "hosts:2: more than 65536 hosts", ""},
      {"fd00::5 slots=2", "hosts:1: 'fd00::5': an IPv6 address is written in brackets", "[fd00::5]"},
  };
  for (const auto& row : table) {
    CAPTURE(row.content.substr(0, 60));
    const auto hosts = parse_hostfile(row.content, "hosts");
    REQUIRE_FALSE(hosts.has_value());
    CAPTURE(hosts.error().message);
    CHECK(hosts.error().code == Code::config);
    CHECK(hosts.error().message.find(row.message) != std::string::npos);
    CHECK(hosts.error().hint.find(row.hint) != std::string::npos);
    CHECK(hosts.error().message.size() < 400);
    CHECK(hosts.error().message.find('\n') == std::string::npos);
  }
}

}  // namespace
}  // namespace trainrun::hosts
