#include "launcher/agent/ports.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "launcher/agent/port_holder.h"

using namespace trainrun;

namespace {

sockaddr_in named(in_addr_t address, std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(address);
  name.sin_port = htons(port);
  return name;
}

int bind_error(std::uint16_t port, bool reuse, bool listen) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (reuse) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto name = named(INADDR_ANY, port);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return errno;
  return listen && ::listen(fd.get(), 1) != 0 ? errno : 0;
}

Fd reusing_socket() {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return fd;
}

// Leaves a connection of that port in TIME_WAIT.
void leave_lingering(std::uint16_t port) {
  const auto listener = reusing_socket();
  const auto any = named(INADDR_ANY, port), loopback = named(INADDR_LOOPBACK, port);
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  const Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(client.get(), reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback) == 0);
  Fd server(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(server);
  server.reset();  // the side that ends first is the one that lingers
  char byte = 0;
  CHECK(::recv(client.get(), &byte, 1, 0) == 0);
}

// The first of two neighbours that are free; others may take one between the look and the test, so it looks
// again.
std::uint16_t two_free_ports() {
  for (int tries = 0; tries < 100; ++tries) {
    const auto held = agent::hold_port(0, 0);
    REQUIRE(held.answer.error == 0);
    const auto next = static_cast<std::uint16_t>(held.answer.port + 1);
    if (next > 1024 && bind_error(next, false, true) == 0) return held.answer.port;
  }
  FAIL("no two free ports");
  return 0;
}

}  // namespace

TEST_SUITE("ports") {
  TEST_CASE("a held port goes to a listener that reuses addresses, and to nobody else") {
    const auto held = agent::hold_port(0, 0);
    REQUIRE(held.answer.error == 0);
    REQUIRE(held.answer.port != 0);
    CHECK(bind_error(held.answer.port, false, false) == EADDRINUSE);
    CHECK(bind_error(held.answer.port, true, true) == 0);
    CHECK(agent::hold_port(5, 4).answer.error == EINVAL);
  }

  TEST_CASE("a held port is nobody else's to hold, also where there is no other") {
    const auto port = two_free_ports();
    const auto last = static_cast<std::uint16_t>(port + 1);
    auto first = agent::hold_port(port, last);
    CHECK(first.answer.port == port);
    auto second = agent::hold_port(port, last);  // another job on this host, with the same range
    CHECK(second.answer.port == last);
    CHECK(agent::hold_port(port, last).answer.error == EADDRINUSE);
    CHECK(agent::hold_port(port, port).answer.error == EADDRINUSE);
  }

  TEST_CASE("the next port of a job is another, and the same where there is no other") {
    const auto port = two_free_ports();
    const auto last = static_cast<std::uint16_t>(port + 1);
    auto first = agent::hold_port(port, last);
    auto second = agent::hold_port(port, last, first);
    CHECK(second.answer.port == last);
    CHECK(agent::hold_port(port, last, second).answer.port == last);  // the other is taken
    first.socket.reset();
    first = agent::hold_port(port, last, second);
    CHECK(first.answer.port == port);
    second.socket.reset();
    CHECK(agent::hold_port(port, last, first).answer.port == last);
    CHECK(agent::hold_port(port, port, first).answer.port == port);
  }

  TEST_CASE("a port on which connections linger is the last choice, no error, and goes to one job alone") {
    const auto port = two_free_ports();
    const auto last = static_cast<std::uint16_t>(port + 1);
    leave_lingering(port);
    CHECK(agent::hold_port(port, last).answer.port == last);
    const auto held = agent::hold_port(port, port);
    CHECK(held.answer.port == port);
    CHECK(bind_error(port, true, true) == 0);
    CHECK(agent::hold_port(port, port).answer.error == EADDRINUSE);
  }

  TEST_CASE("without a descriptor the cause is told, and not looked for in the whole range") {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    auto none = limit;
    none.rlim_cur = 0;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    const auto held = agent::hold_port(1024, 65535);
    const auto bound = agent::bind_in_range(htonl(INADDR_LOOPBACK), 1024, 65535);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(held.answer.error == EMFILE);
    CHECK(bound.error == EMFILE);
  }

  TEST_CASE("a port that somebody listens on is told with who it is, and one that lingers is free") {
    const auto port = two_free_ports();
    CHECK(agent::look_at_port(port).error == 0);
    CHECK(bind_error(port, false, true) == 0);  // it was left alone
    leave_lingering(port);
    CHECK(agent::look_at_port(port).error == 0);

    const auto listener = reusing_socket();
    const auto any = named(INADDR_ANY, port);
    REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
    REQUIRE(::listen(listener.get(), 1) == 0);
    const auto taken = agent::look_at_port(port);
    CHECK(taken.error == EADDRINUSE);
    CHECK(taken.holder.ends_with(", pid " + std::to_string(::getpid())));
  }

  TEST_CASE("of the kernel's table only who listens on that port counts") {
    const std::string table =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:7461 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 11 1 0\n"
        "   1: 00000000:7462 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1 0\n"
        "   2: 00000000:7461 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 13 1 0\n";
    CHECK(agent::listening_inode(table, 0x7461) == 13);
    CHECK(agent::listening_inode(table, 0x7462) == 12);
    CHECK(agent::listening_inode(table, 0x1F90) == 0);
    CHECK(agent::listening_inode("", 1) == 0);
    CHECK(agent::listening_inode("sl local\n: : : 0A", 1) == 0);
  }
}
