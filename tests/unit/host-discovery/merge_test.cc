#include "host-discovery/merge.h"

#include <doctest/doctest.h>

#include "host-discovery/host_list.h"

namespace trainrun::hosts {
namespace {

bool nobody(const Host&) { return false; }
bool this_machine(const Host& host) {
  return host.name == "me" || host.name == "me.example.com" || host.name == "127.0.0.1";
}

TEST_CASE("a host named again adds its slots to its first place, under its first name") {
  const auto merged = merge_hosts(*parse_host_list("b:2,a:1,B:3,a.:4,b:1", "-H"), 1, nobody);
  REQUIRE(merged.has_value());
  const std::vector<Host> expected{{.name = "b", .slots = 6, .slots_given = true},
                                   {.name = "a", .slots = 5, .slots_given = true}};
  CHECK(*merged == expected);
}

TEST_CASE("a host without a count has the default, each time it is named") {
  const auto merged = merge_hosts(*parse_host_list("a,a,b,c,c:3", "-H"), 4, nobody);
  REQUIRE(merged.has_value());
  const std::vector<Host> expected{{.name = "a", .slots = 8, .slots_given = false},
                                   {.name = "b", .slots = 4, .slots_given = false},
                                   {.name = "c", .slots = 7, .slots_given = true}};
  CHECK(*merged == expected);
}

TEST_CASE("of a host that is mentioned again each mention without a count is one slot") {
  auto hosts = *parse_host_list("a,a,b,c,c:3,me,127.0.0.1,A", "-H");
  count_repeats(hosts, this_machine);
  const auto merged = merge_hosts(std::move(hosts), 4, this_machine);
  REQUIRE(merged.has_value());
  const std::vector<Host> expected{{.name = "a", .slots = 3, .slots_given = true},
                                   {.name = "b", .slots = 4, .slots_given = false},
                                   {.name = "c", .slots = 4, .slots_given = true},
                                   {.name = "me", .slots = 2, .slots_given = true}};
  CHECK(*merged == expected);
}

TEST_CASE("two names of this machine are one host, two names of others are two") {
  const auto merged =
      merge_hosts(*parse_host_list("x:1,me:2,127.0.0.1:3,y:1,me.example.com:1", "-H"), 1, this_machine);
  REQUIRE(merged.has_value());
  const std::vector<Host> expected{{.name = "x", .slots = 1, .slots_given = true},
                                   {.name = "me", .slots = 6, .slots_given = true},
                                   {.name = "y", .slots = 1, .slots_given = true}};
  CHECK(*merged == expected);
}

TEST_CASE("user, port and identity hold for all mentions, and must not contradict") {
  std::vector<Host> hosts{{.name = "a"}, {.name = "a", .user = "bob", .port = 22, .identity = "/k"}};
  const auto merged = merge_hosts(hosts, 1, nobody);
  REQUIRE(merged.has_value());
  CHECK(merged->front() ==
        Host{.name = "a", .user = "bob", .port = 22, .identity = "/k", .slots = 2, .slots_given = false});

  for (const Host& other : {Host{.name = "a", .user = "eve"}, Host{.name = "A", .port = 23},
                            Host{.name = "a", .identity = "/l"}}) {
    auto again = hosts;
    again.push_back(other);
    const auto refused = merge_hosts(again, 1, nobody);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == Code::config);
    CHECK(refused.error().message.find("'a'") == 0);
    CHECK(refused.error().message.find("different") != std::string::npos);
  }
}

TEST_CASE("this machine needs no login, so that me@ is no contradiction") {
  const auto merged =
      merge_hosts({{.name = "me", .user = "a"}, {.name = "x", .user = "a"}, {.name = "me"}}, 1, this_machine);
  REQUIRE(merged.has_value());
  const std::vector<Host> expected{{.name = "me", .slots = 2}, {.name = "x", .user = "a", .slots = 1}};
  CHECK(*merged == expected);
}

TEST_CASE("as mentions of one name, two names of this machine are two hosts") {
  const auto merged = merge_hosts({{.name = "me", .user = "a"}, {.name = "127.0.0.1"}, {.name = "ME."}}, 1,
                                  this_machine, Mentions::of_one_name);
  REQUIRE(merged.has_value());
  const std::vector<Host> expected{{.name = "me", .slots = 2}, {.name = "127.0.0.1", .slots = 1}};
  CHECK(*merged == expected);
}

TEST_CASE("a mention means a host by its name, or as this machine under another") {
  const auto me = Host{.name = "me"};
  CHECK(mean_one_host({.name = "gpu1"}, {.name = "GPU1."}, this_machine));
  CHECK(mean_one_host({.name = "fd00::5"}, {.name = "FD00:0::5"}, this_machine));
  CHECK(mean_one_host(me, {.name = "127.0.0.1"}, this_machine));
  CHECK_FALSE(mean_one_host(me, {.name = "gpu1"}, this_machine));
  CHECK_FALSE(mean_one_host({.name = "gpu1"}, {.name = "gpu2"}, this_machine));
}

TEST_CASE("a contradiction between two names of this machine says that they are one") {
  const auto refused = merge_hosts(
      {{.name = "me", .identity = "/a"}, {.name = "127.0.0.1", .identity = "/b"}}, 1, this_machine);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("'me' and '127.0.0.1' are the same machine") == 0);
}

TEST_CASE("the sum of a host's slots is limited") {
  const auto refused = merge_hosts(*parse_host_list("a:65535,a", "-H"), 1, nobody);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("more than 65535 slots") != std::string::npos);
}

}  // namespace
}  // namespace trainrun::hosts
