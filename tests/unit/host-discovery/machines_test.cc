#include "host-discovery/machines.h"

#include <doctest/doctest.h>

namespace trainrun::hosts {
namespace {

constexpr HostIndex a{0}, b{1}, c{2};

TEST_CASE("hosts with one place are one machine") {
  Machines machines;
  CHECK_FALSE(machines.note(a, "boot/pid/net"));
  CHECK_FALSE(machines.note(b, "boot/pid/net2"));  // a container of its own
  CHECK(machines.note(c, "boot/pid/net") == a);
  CHECK(machines.note(c, "boot/pid/net") == a);  // the first stays noted
  CHECK_FALSE(machines.note(a, "boot/pid/net"));
}

TEST_CASE("a place that nobody could tell says nothing") {
  Machines machines;
  CHECK_FALSE(machines.note(a, ""));
  CHECK_FALSE(machines.note(b, ""));
}

TEST_CASE("a host that is gone, or is elsewhere now, is no neighbour") {
  Machines machines;
  CHECK_FALSE(machines.note(a, "boot1"));
  machines.forget(a);
  machines.forget(b);  // was never noted
  CHECK_FALSE(machines.note(b, "boot1"));
  CHECK_FALSE(machines.note(b, "boot2"));  // it was started again
  CHECK_FALSE(machines.note(a, "boot1"));
  CHECK(machines.note(c, "boot2") == b);
}

TEST_CASE("a host that found another in its place takes nothing along when it goes") {
  Machines machines;
  CHECK_FALSE(machines.note(a, "boot"));
  CHECK(machines.note(b, "boot") == a);
  machines.forget(b);
  CHECK(machines.note(c, "boot") == a);
}

}  // namespace
}  // namespace trainrun::hosts
