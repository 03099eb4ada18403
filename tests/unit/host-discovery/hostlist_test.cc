#include "host-discovery/hostlist.h"

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "host-discovery/host_grammar.h"

namespace trainrun::hosts {
namespace {

std::string expanded(std::string_view text) {
  const auto names = expand_hostlist(text);
  return names ? fmt::format("{}", fmt::join(*names, " ")) : "error: " + names.error().message;
}

// The right column is what `scontrol show hostnames` of Slurm 22.05 prints, or of 23.11 for suffixes.
TEST_CASE("a Slurm host list expands as Slurm expands it") {
  const std::pair<const char*, const char*> table[] = {
      {"node[01-03,07,10-11]", "node01 node02 node03 node07 node10 node11"},
      {"n[098-101]", "n098 n099 n100 n101"},
      {"n[8-11]", "n8 n9 n10 n11"},
      {"n[08-11]", "n08 n09 n10 n11"},
      {"n[00-02]", "n00 n01 n02"},
      {"n[000000000001-2]", "n000000000001 n000000000002"},
      {"n[1,01,001]", "n1 n01 n001"},
      {"r[0-1]n[1-2]", "r0n1 r0n2 r1n1 r1n2"},
      {"n[1-2]m[3-4]k[5-6]", "n1m3k5 n1m3k6 n2m3k5 n2m3k6 n1m4k5 n1m4k6 n2m4k5 n2m4k6"},
      {"a[1-2]b[3-4]c[5-6]d[7-8]",
       "a1b3c5d7 a1b3c5d8 a2b3c5d7 a2b3c5d8 a1b4c5d7 a1b4c5d8 a2b4c5d7 a2b4c5d8 a1b3c6d7 a1b3c6d8 a2b3c6d7 "
       "a2b3c6d8 a1b4c6d7 a1b4c6d8 a2b4c6d7 a2b4c6d8"},
      {"n[1-2][3-4]", "n13 n14 n23 n24"},
      {"n[1-3]-ib", "n1-ib n2-ib n3-ib"},
      {"n[1-2].cluster.local", "n1.cluster.local n2.cluster.local"},
      {"n[1-2]-ib,n[5-6]", "n1-ib n2-ib n5 n6"},
      {"n[1,1]", "n1 n1"},
      {"n[1-2],n[1-2]", "n1 n2 n1 n2"},
      {"n1-3", "n1-3"},
      {"[1-3]", "1 2 3"},
      {" n1 , n2 ", "n1 n2"},
      {"n1 n2\tn3\nn4", "n1 n2 n3 n4"},
      {",n1", "n1"},
      {"n1,", "n1"},
      {"", ""},
      {"n_a[1-2]_b", "n_a1_b n_a2_b"},
  };
  for (const auto& [text, names] : table) {
    CAPTURE(text);
    CHECK(expanded(text) == names);
  }
}

TEST_CASE("a malformed host list is an error that names the item") {
  for (const auto* text : {"n[3-1]",
                           "n[a-c]",
                           "n[]",
                           "n[1,]",
                           "n[,1]",
                           "n[1-3:2]",
                           "n[0x1-0x3]",
                           "n[[1-2]]",
                           "n[1-2",
                           "n1-2]",
                           "n]1",
                           "n[1- 3]",
                           "n[-1]",
                           "n[1-]",
                           "n[1-2-3]",
                           "n[+1-2]",
                           "n[1-65537]",
                           "n[0-255]m[0-256]",
                           "a[0-999999999].b[0-9]",
                           "n[0-99999999999999999999]",
                           "n[18446744073709551615]",
                           "n[1-2]]",
                           "-n[1-2]",
                           "n[1-2]$(x)",
                           "n[1\t-2]"}) {
    CAPTURE(text);
    const auto names = expand_hostlist(text);
    REQUIRE_FALSE(names.has_value());
    CHECK(names.error().code == Code::config);
    CHECK(names.error().message.find('\'') == 0);
  }
}

TEST_CASE("exactly 65536 hosts are allowed, in one bracket, in two and in a list") {
  CHECK(expand_hostlist("n[1-65536]")->size() == 65536);
  CHECK(expand_hostlist("n[0-255]m[0-255]")->size() == 65536);
  CHECK(expand_hostlist("n[1-65535],m")->size() == 65536);
  CHECK_FALSE(expand_hostlist("n[1-65536],m").has_value());
  CHECK_FALSE(expand_hostlist("n[1-65536,70000]").has_value());
}

TEST_CASE("an item or a list that is too long is an error") {
  CHECK_FALSE(expand_item("n[1" + std::string(longest_item, '0') + "]").has_value());
  CHECK_FALSE(expand_hostlist(std::string(longest_text + 1, ',')).has_value());
}

TEST_CASE("IPv4 and IPv6 addresses are told from what only looks like them") {
  for (const auto* text : {"0.0.0.0", "127.0.0.1", "255.255.255.255"}) CHECK_MESSAGE(is_ipv4(text), text);
  for (const auto* text :
       {"", "1", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "1.2.3.", "1.2.3.4 ", "a.b.c.d"}) {
    CHECK_MESSAGE(!is_ipv4(text), text);
  }
  for (const auto* text : {"::", "::1", "fd00::5", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::ffff:10.0.0.1",
                           "fe80::1%eth0", "FD00:0:0:0:0:0:0:1"}) {
    CHECK_MESSAGE(is_ipv6(text), text);
  }
  for (const auto* text :
       {"", ":", ":::", "1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8::", "1::2::3",
        "12345::", "g::", "::1%", "::1%eth0;x", "::1 ", "10.0.0.1::", "::10.0.0", "1:2:3:4:5:6:7:10.0.0.1"}) {
    CHECK_MESSAGE(!is_ipv6(text), text);
  }
}

}  // namespace
}  // namespace trainrun::hosts
