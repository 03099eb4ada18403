#include "host-discovery/host_list.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace trainrun::hosts {
namespace {

// A list as -H would take it: the inverse of parse_host_list for hosts without an identity.
std::string written(const std::vector<Host>& hosts) {
  std::string out;
  for (const auto& host : hosts) {
    if (!out.empty()) out += ",";
    if (host.port != 0) out += "ssh://";
    if (!host.user.empty()) out += host.user + "@";
    out += host.name.find(':') == std::string::npos ? host.name : "[" + host.name + "]";
    if (host.port != 0) out += fmt::format(":{}", host.port);
    if (host.slots_given) out += fmt::format(":{}", host.slots);
  }
  return out;
}

TEST_CASE("a host list gives users, names, slots and ports in the order written") {
  const auto hosts = parse_host_list("a:2, bob@b ,[fd00::1]:4,ssh://eve@c.example.com:2222,n[1-2]:8", "-H");
  REQUIRE(hosts.has_value());
  const std::vector<Host> expected{
      {.name = "a", .slots = 2, .slots_given = true},
      {.name = "b", .user = "bob"},
      {.name = "fd00::1", .slots = 4, .slots_given = true},
      {.name = "c.example.com", .user = "eve", .port = 2222},
      {.name = "n1", .slots = 8, .slots_given = true},
      {.name = "n2", .slots = 8, .slots_given = true},
  };
  CHECK(*hosts == expected);
}

TEST_CASE("a hundred good host lists are read, and read back from what they mean") {
  std::vector<std::string> good = {"localhost",
                                   "localhost:1",
                                   "gpu1",
                                   "gpu1,gpu2",
                                   "gpu1:8,gpu2:8",
                                   "gpu1:8,gpu1:8",
                                   "GPU1.Example.COM:2",
                                   "a.b.c.d.e.f",
                                   "host.",
                                   "_dmarc.example",
                                   "node_1",
                                   "node-1-2",
                                   "n1-3",
                                   "1",
                                   "42:7",
                                   "0",
                                   "3com.example",
                                   "xn--bcher-kva.example",
                                   "10.0.0.1",
                                   "10.0.0.1:65535",
                                   "root@10.0.0.1:4",
                                   "127.0.0.1,localhost",
                                   "[::1]",
                                   "[::1]:2",
                                   "[fd00::5]:8,[fd00::6]:8",
                                   "bob@[fd00::5]:8",
                                   "[fe80::1%eth0]:2",
                                   "[::ffff:10.0.0.1]:2",
                                   "[1:2:3:4:5:6:7:8]",
                                   "ssh://host",
                                   "ssh://bob@host",
                                   "ssh://bob@host:22",
                                   "ssh://[fd00::5]:22",
                                   "ssh://root@[fd00::5]:41022",
                                   "ssh://10.0.0.1:65535",
                                   "a_b.c-d@host",
                                   "user01@host:2",
                                   "Bob@host",
                                   "_svc@host",
                                   "01user@host",
                                   "a,b,",
                                   " a , b ",
                                   "\ta:1\t,\tb:2",
                                   "node[1-4]",
                                   "node[01-08,11]:8",
                                   "bob@node[01-02]:8",
                                   "rack[0-1]n[01-02]:4",
                                   "node[1-2].cluster.local:8",
                                   "n[1-2]-ib:4",
                                   "[1-3]",
                                   "[01-03]:2",
                                   "n[1,3,5-7],m:2",
                                   "ssh://bob@node[1-2]:2222",
                                   std::string(63, 'a'),
                                   std::string(32, 'u') + "@h"};
  std::string longest(63, 'a');
  for (int i = 0; i < 2; ++i) longest += "." + std::string(63, 'b');
  good.push_back(longest + "." + std::string(61, 'c'));  // 253 characters
  for (int i = 1; i <= 50; ++i) {
    good.push_back(fmt::format("u{0}@node-{0}.site_{0}:{1},10.{0}.0.{0}:{0}", i, i * 1300));
  }
  CHECK(good.size() >= 100);
  for (const auto& text : good) {
    CAPTURE(text);
    const auto hosts = parse_host_list(text, "-H");
    REQUIRE_MESSAGE(hosts.has_value(), (hosts ? "" : hosts.error().message));
    const auto again = parse_host_list(written(*hosts), "-H");
    REQUIRE(again.has_value());
    CHECK(*again == *hosts);
  }
}

TEST_CASE("an error says where the list came from, which item is wrong and what was expected") {
  struct Row {
    const char *text, *message, *hint;
  };
  const Row table[] = {
      {"a:2,b:x", "-H: 'b:x': 'x' is not a number of slots from 1 to 65535", "name:slots"},
      {"a:0", "-H: 'a:0': '0' is not a number of slots", "name:slots"},
      {"a:65536", "'65536' is not a number of slots", "name:slots"},
      {"ssh://a:0", "'0' is not a port from 1 to 65535", "ssh://"},
      {"a;rm", "-H: 'a;rm': ';' cannot be in a host name", "letters"},
      {"-oProxyCommand=x", "'=' cannot be in a host name", "letters"},
      {"-a", "begins or ends with '-'", "begins with neither '.' nor '-'"},
      {"a,,b", "nothing between two commas", "gpu1:8"},
      {"", "-H: no host is named", "gpu1:8"},
      {"fd00::5", "an IPv6 address is written in brackets", "write [fd00::5]"},
      {"fd00::5:8", "an IPv6 address is written in brackets", "[fd00::5:8]"},
      {"a:1:2", "more than one ':'", "name:slots"},
      {"[fd00::g]:1", "not an IPv6 address between the brackets", "IPv6"},
      {"[fd00::1]8", "only ':' and a number may follow", "IPv6"},
      {"-x@host", "'-x': not a user name", "begins with neither '.' nor '-'"},
      {"@host", "'': not a user name", "user name"},
      {"10.1", "not an IPv4 address", "letters"},
      {"a:2x", "'2x' is not a number of slots", "name:slots"},
      {"n[1-2", "'[' without its ']'", "node[01-08,11]"},
      {"node{01..04}:2", "'node{01..04}:2': braces are expanded by some shells, and not here",
       "write 'node[01-04]:2'"},
      {"a,node{1,3}", "braces are expanded by some shells", "write 'a,node[1,3]'"},
      {"node{a,b}", "'{' cannot be in a host name", "letters"},
      {"node1 node2:2", "'node1 node2:2': a space between two hosts",
       "separate hosts with commas: node1,node2:2"},
  };
  for (const auto& row : table) {
    CAPTURE(row.text);
    const auto hosts = parse_host_list(row.text, "-H");
    REQUIRE_FALSE(hosts.has_value());
    CAPTURE(hosts.error().message);
    CAPTURE(hosts.error().hint);
    CHECK(hosts.error().code == Code::config);
    CHECK(hosts.error().message.starts_with("-H: "));
    CHECK(hosts.error().message.find(row.message) != std::string::npos);
    CHECK(hosts.error().hint.find(row.hint) != std::string::npos);
  }
}

TEST_CASE("more than 65536 hosts in one list are refused") {
  CHECK(parse_host_list("n[1-65536]", "-H").has_value());
  CHECK_FALSE(parse_host_list("n[1-65536],m", "-H").has_value());
}

}  // namespace
}  // namespace trainrun::hosts
