#include "host-discovery/diff.h"

#include <doctest/doctest.h>

#include "host-discovery/host_key.h"

namespace trainrun::hosts {
namespace {

TEST_CASE("hosts are the same by name, user and port, whatever their slots, key and case") {
  const Host host{.name = "Gpu1", .user = "alice", .port = 22, .identity = "k", .slots = 8};
  CHECK(host_key(host) == host_key({.name = "gpu1.", .user = "alice", .port = 22}));
  CHECK(host_key(host) != host_key({.name = "gpu1", .user = "Alice", .port = 22}));
  CHECK(host_key(host) != host_key({.name = "gpu1", .user = "alice"}));
  CHECK(host_key(host) != host_key({.name = "gpu11", .user = "alice", .port = 22}));
}

TEST_CASE("what was added, removed and resized, each in its set's order") {
  const Host a{.name = "a", .slots = 2}, b{.name = "b"}, c{.name = "c"}, d{.name = "d"}, e{.name = "e"};
  auto more = a;
  more.slots = 3;
  const HostSet before{{c, a, b, d}, 1}, after{{e, more, d, {.name = "b", .user = "alice"}}, 2};
  const auto changes = diff(before, after);
  CHECK(changes.added == std::vector<Host>{e, {.name = "b", .user = "alice"}});
  CHECK(changes.removed == std::vector<Host>{c, b});
  CHECK(changes.resized == std::vector<SlotChange>{{more, 2}});
  CHECK(diff(after, before).resized == std::vector<SlotChange>{{a, 3}});
}

TEST_CASE("another order, another revision and another key are no change") {
  const Host a{.name = "a"}, b{.name = "b"};
  CHECK(diff({{a, b}, 1}, {{b, {.name = "A", .identity = "k"}}, 7}).empty());
  CHECK(diff({}, {}).empty());
}

}  // namespace
}  // namespace trainrun::hosts
