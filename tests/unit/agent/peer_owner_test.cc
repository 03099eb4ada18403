#include "launcher/agent/peer_owner.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/base/fd.h"

using namespace trainrun;

namespace {

// A connection over loopback: our end is `near`, the other one `far`.
struct Pair {
  Pair() : listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
    REQUIRE(::listen(listener.get(), 8) == 0);
    socklen_t size = sizeof name;
    REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size) == 0);
    port = ntohs(name.sin_port);
  }
  void connect() {
    far = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    name.sin_port = htons(port);
    REQUIRE(::connect(far.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
  }
  // As programs do that know one family alone.
  void connect_by_ipv6() {
    far = Fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(far);
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    name.sin6_port = htons(port);
    REQUIRE(::inet_pton(AF_INET6, "::ffff:127.0.0.1", &name.sin6_addr) == 1);
    REQUIRE(::connect(far.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
  }
  void accept() {
    socklen_t size = sizeof peer;
    near = Fd(::accept(listener.get(), reinterpret_cast<sockaddr*>(&peer), &size));
    REQUIRE(near);
  }

  Fd listener, near, far;
  std::uint16_t port = 0;
  sockaddr_in peer{};
};

std::optional<agent::PeerOwner> owner_of(const sockaddr_in& peer, std::uint16_t port) {
  const Fd netlink = agent::open_netlink();
  Fd spare(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return agent::owner_of(netlink, spare, peer, port);
}

}  // namespace

TEST_SUITE("peer_owner") {
  TEST_CASE("both ways name the user at the other end") {
    Pair pair;
    bool by_ipv6 = false;
    SUBCASE("by a socket of IPv4") { pair.connect(); }
    SUBCASE("by a socket of IPv6") {
      pair.connect_by_ipv6();
      by_ipv6 = true;
    }
    CAPTURE(by_ipv6);
    pair.accept();
    const auto by_netlink = agent::owner_by_netlink(agent::open_netlink(), pair.peer, pair.port);
    if (!by_netlink) MESSAGE("netlink's socket diagnosis is not available here");
    if (by_netlink) CHECK(by_netlink->user == ::getuid());
    const auto by_table = agent::owner_by_table(pair.peer, pair.port);
    REQUIRE(by_table);
    CHECK(by_table->user == ::getuid());
    struct stat far {};
    REQUIRE(::fstat(pair.far.get(), &far) == 0);
    CHECK(by_table->inode == far.st_ino);
    if (by_netlink) CHECK(by_netlink == by_table);
    CHECK(owner_of(pair.peer, pair.port) == by_table);
  }

  // Who is not root cannot become another: doctest counts it as skipped.
  TEST_CASE("another user's process is another user's" * doctest::skip(::getuid() != 0)) {
    Pair pair;
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setuid(65534) != 0 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) ::_exit(1);
      pair.connect();
      char byte = 0;  // until the test has looked
      ::_exit(::read(pair.far.get(), &byte, 1) == 1 ? 0 : 1);
    }
    pair.accept();
    for (const auto& owner : {agent::owner_by_table(pair.peer, pair.port), owner_of(pair.peer, pair.port)}) {
      REQUIRE(owner);
      CHECK(owner->user == 65534);
    }
    CHECK(::write(pair.near.get(), "x", 1) == 1);
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
  }

  TEST_CASE("a connection that was closed, or never was, is nobody's") {
    Pair pair;
    pair.connect();
    pair.accept();
    pair.far.reset();
    CHECK(!owner_of(pair.peer, pair.port));
    auto other = pair.peer;
    other.sin_port = htons(pair.port);  // a listener has it
    CHECK(!owner_of(other, pair.port));
    other = pair.peer;
    other.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    CHECK(!owner_of(other, pair.port));
  }

  TEST_CASE("both ways name the user that listens, at an address or at all") {
    Pair pair;
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    where.sin_port = htons(pair.port);
    struct stat listener {};
    REQUIRE(::fstat(pair.listener.get(), &listener) == 0);
    const agent::PeerOwner us{::getuid(), listener.st_ino};
    if (const auto by_netlink = agent::listener_by_netlink(where)) CHECK(by_netlink == us);
    CHECK(agent::listener_by_table(where) == us);
    CHECK(agent::owner_of_listener(where) == us);
    pair.connect();
    pair.accept();
    CHECK(agent::owner_of_listener(where) == us);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);  // it listens on 127.0.0.1 alone
    CHECK(!agent::owner_of_listener(where));
    CHECK(agent::listener_in("  0: 00000000:0016 00000000:0000 0A 0:0 0:0 0 7 0 42 1\n", [&] {
            where.sin_port = htons(0x16);
            return where;
          }()) == agent::PeerOwner{7, 42});
    pair.listener.reset();
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    where.sin_port = htons(pair.port);
    CHECK(!agent::owner_of_listener(where));
  }
}
