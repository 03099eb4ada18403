#include "launcher/transport/ssh_config_lines.h"

#include <doctest/doctest.h>

#include <map>

using namespace trainrun::transport;

namespace {

std::optional<std::string> misread(std::string_view text,
                                   const std::map<std::string, std::string>& others = {}) {
  SshConfigLines lines("gpu1", "10.0.0.1", [&](std::string_view pattern) {
    const auto found = others.find(std::string(pattern));
    return found == others.end() ? std::string() : found->second;
  });
  return lines.misread(text);
}

}  // namespace

TEST_SUITE("ssh_config_lines") {
  TEST_CASE("a pattern of the given name behind a HostName is misread") {
    CHECK(misread("Host gpu1\n  HostName 10.0.0.1\n\nHost gpu*  \n  User me\n") == "Host gpu*");
    CHECK(misread("Host gpu1\n  hostname=10.0.0.1\nHOST=\"gpu?\" other\n") == "HOST=\"gpu?\" other");
    CHECK(misread("HostName 10.0.0.1\nHost gpu1\n") == "Host gpu1");
  }

  TEST_CASE("so is one of the address alone") {
    CHECK(misread("Host gpu1\n  HostName 10.0.0.1\nHost 10.0.0.*\n  User me\n") == "Host 10.0.0.*");
    CHECK(misread("Host gpu1\n  HostName 10.0.0.1\nHost * !gpu1\n  User me\n") == "Host * !gpu1");
  }

  TEST_CASE("what stands before it, or is about all or others, is read alike") {
    CHECK_FALSE(
        misread("Host gpu*\n  User me\nHost gpu1\n  HostName 10.0.0.1\nHost *\n  Port 22\nHost node*\n"));
    CHECK_FALSE(misread("Host node1\n  HostName 10.0.0.2\nHost gpu*\n  User me\n"));
    CHECK_FALSE(misread("Host gpu1\n  #HostName 10.0.0.1\nHost gpu*\n"));
    CHECK_FALSE(misread("Match host gpu1\n  HostName 10.0.0.1\nHost gpu*\n"));
    CHECK_FALSE(misread("Host gpu1\n  HostName 10.0.0.1\nHost g* 10.*\nHost\n"));
    CHECK_FALSE(misread(""));
  }

  TEST_CASE("what a file includes counts, where it is included") {
    const std::map<std::string, std::string> others{
        {"a", "Host gpu1\n  HostName 10.0.0.1\n"}, {"b", "Host gpu*\n  User me\n"}, {"c", "Include c\n"}};
    CHECK(misread("Include a b\n", others) == "Host gpu*");
    CHECK_FALSE(misread("Include b a\n", others));
    CHECK(misread("Include a\nHost gpu?\n", others) == "Host gpu?");
    CHECK_FALSE(misread("Host node1\n  Include a\nHost gpu*\n", others));
    CHECK_FALSE(misread("Include c\n", others));  // itself
    int asked = 0;
    SshConfigLines lines("gpu1", "10.0.0.1", [&asked](std::string_view) {
      ++asked;
      return std::string("Include d d\n");
    });
    CHECK_FALSE(lines.misread("Include d\n"));
    CHECK(asked == 1000);  // not 2^16
  }

  TEST_CASE("one file follows another") {
    SshConfigLines lines("gpu1", "10.0.0.1", {});
    CHECK_FALSE(lines.misread("Host gpu1\n  HostName 10.0.0.1\n"));
    CHECK(lines.misread("Host gpu*\n") == "Host gpu*");
  }
}
