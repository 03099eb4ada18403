#include "host-discovery/script.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "host-discovery/host_key.h"
#include "host-discovery/script_json.h"
#include "host-discovery/slurm.h"

namespace trainrun::hosts {
namespace {

std::string shown(const Result<Listing>& listing) {
  if (!listing) return "error: " + listing.error().message;
  std::string out;
  for (const auto& host : listing->hosts) {
    out += out.empty() ? "" : " ";
    if (!host.user.empty()) out += host.user + "@";
    out += host.name;
    if (host.port != 0) out += fmt::format("/{}", host.port);
    if (!host.identity.empty()) out += fmt::format("<{}>", host.identity);
    out += fmt::format("{}{}", host.slots_given ? ":" : "~", host.slots);
  }
  return out;
}

std::string said(std::string_view text) { return shown(parse_script(text, 2)); }

TEST_CASE("what scripts print, and what it means") {
  const std::pair<const char*, const char*> table[] = {
      // horovodrun's contract
      {"gpu1\ngpu2\n", "gpu1~2 gpu2~2"},
      {"gpu1:8\ngpu2:4\n", "gpu1:8 gpu2:4"},
      {"", ""},
      {"\n\n", ""},
      // the order is kept
      {"z:1\na:1\nm:1\n", "z:1 a:1 m:1"},
      // the last line without its end, CRLF, blanks, a byte order mark
      {"gpu1:8\ngpu2:4", "gpu1:8 gpu2:4"},
      {"gpu1:8\r\ngpu2:4\r\n", "gpu1:8 gpu2:4"},
      {"gpu1:8\r\n\r\ngpu2:4\r", "gpu1:8 gpu2:4"},
      {"  gpu1:8\t\n\t gpu2 \n", "gpu1:8 gpu2~2"},
      {"\xEF\xBB\xBFgpu1\n", "gpu1~2"},
      // comments
      {"# all of them\ngpu1:8 # the good one\n#gpu2\n", "gpu1:8"},
      {"/* gpu1\ngpu2 */ gpu3\n", "gpu3~2"},
      // words
      {"gpu1 slots=8\n", "gpu1:8"},
      {"gpu1 slots = 8\n", "gpu1:8"},
      {"gpu1:8 zone=eu-1b spot=1 cpu=96 price=0.3\n", "gpu1:8"},
      {"gpu1 slots=4 gpus=8\n", "gpu1:4"},
      {"gpu1:4 gpus=8\n", "gpu1:4"},
      {"gpu1:4 gpus=a100:8\n", "gpu1:4"},
      {"gpu1 gpus=8\n", "gpu1:8"},
      {"gpu1 user=alice port=2222 identity=~/.ssh/rented\n", "alice@gpu1/2222<~/.ssh/rented>~2"},
      {"alice@gpu1:8\n", "alice@gpu1:8"},
      {"ssh://alice@gpu1:2222 slots=3\n", "alice@gpu1/2222:3"},
      // addresses and ranges
      {"10.0.0.7:8\n", "10.0.0.7:8"},
      {"[fd00::5]:8\n[fd00::6]\n", "fd00::5:8 fd00::6~2"},
      {"node[01-03]:8\n", "node01:8 node02:8 node03:8"},
      // a host that is named twice adds up, under its first name
      {"gpu1:2\ngpu2:1\nGPU1.:3\n", "gpu1:5 gpu2:1"},
      {"gpu1\ngpu1\n", "gpu1~4"},
      // JSON lines, also among others
      {R"({"host":"gpu1","slots":8})", "gpu1:8"},
      {"{\"host\":\"gpu1\",\"gpus\":4,\"zone\":{\"a\":[1]}}\r\ngpu2\n{\"host\":\"alice@gpu3\"}\n",
       "gpu1:4 gpu2~2 alice@gpu3~2"},
      {R"({"host":"gpu1","slots":null,"user":"alice","port":2222,"identity":"my key"})",
       "alice@gpu1/2222<my key>~2"},
      {R"({"host":"fd00::5","slots":8})", "fd00::5:8"},
      {R"({"host":"node[1-2]","slots":3})", "node1:3 node2:3"},
      // somebody's script for headless services: one line for each socket type, hence `sort -u`
      {"10.0.0.2\n10.0.0.1\n", "10.0.0.2~2 10.0.0.1~2"},
  };
  for (const auto& [text, expected] : table) {
    CAPTURE(std::string(text));
    CHECK(said(text) == expected);
  }
}

TEST_CASE("a bad line makes the answer bad, by its number and what was expected") {
  const std::pair<const char*, const char*> table[] = {
      {"gpu1\nerror: cannot connect\n", "line 2: 'error:': '' is not a number of slots"},
      {"gpu1\n\n# x\ngpu2:x\n", "line 4: 'gpu2:x': 'x' is not a number of slots from 1 to 65535"},
      {"gpu1:8 8\n", "line 1: '8' where key=value was expected"},
      {"gpu1,gpu2\n", "line 1: 'gpu1,gpu2': ',' cannot be in a host name"},
      {"fd00::5\n", "line 1: 'fd00::5': an IPv6 address is written in brackets"},
      {"fd00::0\n", "line 1: 'fd00::0': an IPv6 address is written in brackets"},
      {"gpu1:8 slots=8\n", "line 1: the slots are given twice, after ':' and as a word"},
      {"gpu1 slots=8 slots=8\n", "line 1: slots= is given twice"},
      {"gpu1 slots=65536\n", "line 1: slots='65536' is not a number from 0 to 65535"},
      {"gpu1 gpus=a100:8\n", "line 1: gpus='a100:8' is not a number from 0 to 65535"},
      {"gpu1 =8\n", "line 1: '' is not known"},
      {"gpu1 port=0\n", "line 1: port='0' is not a number from 1 to 65535"},
      {"gpu1 user=-x\n", "line 1: '-x': not a user name"},
      {"-oProxyCommand=x\n", "line 1: '-oProxyCommand=x': '=' cannot be in a host name"},
      {"!\n", "line 1: '': an empty host"},
      {"! gpu1\n", "line 1: '': an empty host"},
      {"gpu1\n/* gpu2\n", "line 2: '/*' without its '*/'"},
      {"{\"host\":\"gpu1\"\n", "line 1: '{\"host\":\"gpu1\"' is no JSON object"},
      {"{\"host\":\"gpu1\"} x\n", "line 1: '{\"host\":\"gpu1\"} x' is no JSON object"},
      {"{}\n", "line 1: '{}' has no \"host\""},
      {"{\"host\":7}\n", "line 1: '{\"host\":7}' has no \"host\""},
      {"{\"host\":\"a\",\"slots\":\"8\"}\n", "line 1: \"slots\" is no whole number"},
      {"{\"host\":\"a\",\"slots\":-1}\n", "line 1: \"slots\" is no whole number"},
      {"{\"host\":\"a\",\"slots\":1.5}\n", "line 1: \"slots\" is no whole number"},
      {"{\"host\":\"a\",\"slots\":99999}\n", "line 1: slots='99999' is not a number from 0 to 65535"},
      {"{\"host\":\"a\",\"user\":7}\n", "line 1: \"user\" is no text"},
      {"{\"host\":\"a b\"}\n", "line 1: 'a b': ' ' cannot be in a host name"},
      {"<!DOCTYPE html>\n", "line 1: '<!DOCTYPE': '<' cannot be in a host name"},
      {"a user=x\na user=y\n", "'a' is named twice with different users"},
  };
  for (const auto& [text, expected] : table) {
    CAPTURE(std::string(text));
    const auto listing = parse_script(text, 1);
    REQUIRE_FALSE(listing.has_value());
    CHECK(listing.error().message.substr(0, std::string_view(expected).size()) == expected);
    CHECK(listing.error().code == Code::config);
  }
  CHECK(parse_script("fd00::5\n", 1).error().hint == "write [fd00::5]");
  CHECK(said(std::string("gpu1\ng\0pu\n", 10)) == "error: line 2: a NUL byte");
}

TEST_CASE("!host, host:0, slots=0 and gpus=0 say that a host is to be left, and beat any mention of it") {
  for (const char* mark : {"!gpu1", "gpu1:0", "gpu1 slots=0", "gpu1 gpus=0", "!GPU1.", "!gpu1:4", "!gpu[1-1]",
                           R"({"host":"gpu1","slots":0})", R"({"host":"!gpu1"})"}) {
    CAPTURE(mark);
    for (const auto& text :
         {fmt::format("gpu1:8\n{}\ngpu2:8\n", mark), fmt::format("{}\ngpu2:8\ngpu1:8", mark)}) {
      const auto listing = parse_script(text, 1);
      CHECK(shown(listing) == "gpu2:8");
      CHECK(listing->removes({.name = "gpu1"}));
      CHECK(listing->removes({.name = "gpu1", .user = "alice", .port = 22}));
      CHECK_FALSE(listing->removes({.name = "gpu2"}));
    }
  }
  const auto v6 = parse_script("[fd00::5]:0\n", 1);
  CHECK(v6->removes({.name = "fd00::5"}));
  // A mark with a user or a port means that login alone.
  const auto alice = parse_script("!alice@gpu1\n!gpu2 port=22\n", 1);
  CHECK(alice->removes({.name = "gpu1", .user = "alice", .port = 4}));
  CHECK_FALSE(alice->removes({.name = "gpu1"}));
  CHECK_FALSE(alice->removes({.name = "gpu1", .user = "bob"}));
  CHECK(alice->removes({.name = "gpu2", .user = "bob", .port = 22}));
  CHECK_FALSE(alice->removes({.name = "gpu2", .port = 23}));
}

TEST_CASE("limits: bytes of the answer, of a line, number of hosts") {
  std::string text(most_output, '#');
  for (std::size_t i = 60'000; i < text.size(); i += 60'000) text[i] = '\n';
  CHECK(said(text).empty());
  CHECK(said(text + "#") == "error: more than 10 MB of output");

  const std::string line = "a zone=" + std::string(64 * 1024 - 7, 'z');
  CHECK(said(line + "\n") == "a~2");
  CHECK(said("b\n" + line + "z\n") == "error: line 2: a line of more than 65536 bytes");

  CHECK(parse_script("n[0-65535]\n", 1)->hosts.size() == 65536);
  CHECK(said("n[0-65535]\nb\n") == "error: line 2: more than 65536 hosts");
  CHECK(said("n[0-65535]\n!b\n") == "error: line 2: more than 65536 hosts");
}

TEST_CASE("names of this machine are one host") {
  const auto here = [](const Host& host) { return host.name == "localhost" || host.name == "gpu1"; };
  CHECK(shown(parse_script("localhost:2\ngpu2:1\ngpu1:2\n", 1, here)) == "localhost:4 gpu2:1");
  CHECK(shown(parse_script("me@localhost:2\nlocalhost:1\n", 1, here)) == "localhost:3");
  CHECK(shown(parse_script("localhost:2\ngpu2:1\n!me@localhost\n", 1, here)) == "gpu2:1");
}

TEST_CASE("the nodes that a Slurm job still has, with the counts that its environment knows") {
  const auto env = [](std::string_view name) -> std::optional<std::string> {
    if (name == "SLURM_JOB_ID") return "7";
    if (name == "SLURM_JOB_NODELIST") return "node[1-4]";
    if (name == "SLURM_TASKS_PER_NODE") return "8(x3),4";
    return std::nullopt;
  };
  const auto shrunk = live_slurm_hosts("node[1,4]\n", env);
  REQUIRE(shrunk);
  CHECK(*shrunk == std::vector<Host>{{.name = "node1", .slots = 8, .slots_given = true},
                                     {.name = "node4", .slots = 4, .slots_given = true}});
  // A second component, a node that came later, no environment to speak of.
  CHECK(*live_slurm_hosts("node1\nnode9\n", env) ==
        std::vector<Host>{{.name = "node1", .slots = 8, .slots_given = true}, {.name = "node9"}});
  const auto nothing = [](std::string_view) { return std::optional<std::string>(); };
  CHECK(*live_slurm_hosts("node[1-2]\n", nothing) == std::vector<Host>{{.name = "node1"}, {.name = "node2"}});
  CHECK(live_slurm_hosts("\n", nothing)->empty());
  CHECK_FALSE(live_slurm_hosts("slurm_load_jobs error: Invalid job id\n", nothing).has_value());
}

}  // namespace
}  // namespace trainrun::hosts
