#include "host-discovery/this_machine.h"

#include <doctest/doctest.h>

namespace trainrun::hosts {
namespace {

ThisMachine machine() {
  return ThisMachine({.host_name = "Box.example",
                      .addresses = {"10.0.0.5", "fd00::5", "not an address"},
                      .hosts_file = "127.0.1.1 box.example box # me\n10.0.0.5\tten fast-net\n"
                                    "FD00:0::5 six\n10.0.0.6 other\n# 10.0.0.5 not\n",
                      .user = [] { return std::string("me"); }});
}

TEST_CASE("this machine is known by its names, aliases and addresses, however they are spelled") {
  for (const char* own : {"localhost",   "LOCALHOST",       "localhost.",       "127.0.0.1", "127.3.2.1",
                          "::1",         "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "box",       "BOX",
                          "box.",        "box.example",     "Box.Example.",     "ten",       "fast-net",
                          "six",         "10.0.0.5",        "::ffff:10.0.0.5",  "fd00:0::5", "FD00::5",
                          "fd00::5%eth0"}) {
    CAPTURE(own);
    CHECK(machine().has_name(own));
    CHECK(machine().is({.name = own}));
    CHECK(machine().is({.name = own, .user = "me"}));  // the login that we have
    CHECK_FALSE(machine().is({.name = own, .user = "you"}));
    CHECK_FALSE(machine().is({.name = own, .user = "Me"}));
    CHECK_FALSE(machine().is({.name = own, .port = 22}));  // another sshd: a container, a forwarded port
    CHECK_FALSE(machine().is({.name = own, .user = "me", .port = 22}));
  }
  for (const char* foreign : {"other", "10.0.0.6", "bo", "not", "me", "", ".", "fd00::6", "box.other",
                              "128.0.0.1", "localhost.example", "example"}) {
    CAPTURE(foreign);
    CHECK_FALSE(machine().has_name(foreign));
    CHECK_FALSE(machine().is({.name = foreign}));
  }
}

TEST_CASE("without a system to ask only localhost is this machine, and nobody's login") {
  const ThisMachine bare({.host_name = ""});
  CHECK(bare.is({.name = "localhost"}));
  CHECK_FALSE(bare.is({.name = "localhost", .user = "me"}));
  CHECK_FALSE(bare.has_name(""));
  const ThisMachine nobody({.host_name = "", .user = [] { return std::string(); }});
  CHECK_FALSE(nobody.is({.name = "localhost", .user = "me"}));
}

TEST_CASE("who it is that we are is asked only when a host of ours names somebody") {
  int asked = 0;
  const ThisMachine ours({.host_name = "box", .user = [&asked] { return ++asked, std::string("me"); }});
  CHECK(ours.is({.name = "box"}));
  CHECK_FALSE(ours.is({.name = "other", .user = "me"}));
  CHECK(asked == 0);
  CHECK(ours.is({.name = "box", .user = "me"}));
  CHECK(asked == 1);
}

}  // namespace
}  // namespace trainrun::hosts
