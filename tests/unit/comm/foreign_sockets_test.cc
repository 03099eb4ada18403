#include "comm/foreign_sockets.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "launcher/base/fd.h"

using namespace trainrun;
using namespace trainrun::comm;

namespace {

struct Listener {
  Fd socket{::socket(AF_INET, SOCK_STREAM, 0)};
  sockaddr_in place{};

  explicit Listener(std::uint32_t host = INADDR_LOOPBACK) {
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(host);
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0);
    REQUIRE(::listen(socket.get(), 8) == 0);
    socklen_t size = sizeof place;
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&place), &size) == 0);
  }
  [[nodiscard]] std::string name() const {
    std::array<char, INET_ADDRSTRLEN> host{};
    ::inet_ntop(AF_INET, &place.sin_addr, host.data(), host.size());
    return fmt::format("{}:{}", host.data(), ntohs(place.sin_port));
  }
};

struct Connection {
  Fd near{::socket(AF_INET, SOCK_STREAM, 0)}, far;

  explicit Connection(const Listener& listener) {
    auto place = listener.place;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(near.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0);
    far = Fd(::accept(listener.socket.get(), nullptr, nullptr));
    REQUIRE(far);
  }
  [[nodiscard]] bool alive() const {
    pollfd ends[] = {{near.get(), POLLIN, 0}, {far.get(), POLLIN, 0}};
    return ::poll(ends, 2, 0) == 0;
  }
};

}  // namespace

TEST_CASE("what was accepted here and what leads to the others is shut, and nothing else") {
  const Listener own, peer, store;
  const Connection accepted(own), dialled(peer), other(store);
  ForeignSockets sockets;
  sockets.shut();  // nobody has said which
  CHECK(accepted.alive());
  SUBCASE("the one that accepts") {
    REQUIRE(sockets.name({own.name()}, {}));
    sockets.shut();
    CHECK(!accepted.alive());
    CHECK(dialled.alive());
  }
  SUBCASE("the one that dials") {
    REQUIRE(sockets.name({}, {peer.name()}));
    sockets.shut();
    CHECK(!dialled.alive());
    CHECK(accepted.alive());
  }
  sockets.shut();
  CHECK(other.alive());
  const Connection later(own);  // the listeners still listen
  CHECK(later.alive());
}

TEST_CASE("at first for reading alone, then for writing too") {
  const Listener own;
  const Connection accepted(own);
  ForeignSockets sockets;
  REQUIRE(sockets.name({own.name()}, {}));
  sockets.shut();
  CHECK(::send(accepted.far.get(), "x", 1, MSG_NOSIGNAL) == 1);
  sockets.shut(true);
  CHECK(::send(accepted.far.get(), "x", 1, MSG_NOSIGNAL) == -1);
}

TEST_CASE("who listens on all addresses is known by its port") {
  const Listener own(INADDR_ANY), other;
  const Connection accepted(own), stays(other);
  ForeignSockets sockets;
  REQUIRE(sockets.name({own.name()}, {}));
  sockets.shut();
  CHECK(!accepted.alive());
  CHECK(stays.alive());
}

TEST_CASE("a child that holds a connection open does not keep it alive") {
  const Listener own;
  const Connection accepted(own);
  const auto child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  ForeignSockets sockets;
  REQUIRE(sockets.name({own.name()}, {}));
  sockets.shut();
  CHECK(!accepted.alive());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("a lock of this process on a file outlives it") {
  const Listener own;
  const Connection accepted(own);
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  REQUIRE(::fcntl(::fileno(file), F_SETLK, &lock) == 0);
  ForeignSockets sockets;
  REQUIRE(sockets.name({own.name()}, {}));
  sockets.shut();
  CHECK(!accepted.alive());
  const auto child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(::fcntl(::fileno(file), F_SETLK, &lock) == 0 ? 1 : 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  std::fclose(file);
}

TEST_CASE("addresses are numeric, with a port") {
  ForeignSockets sockets;
  for (const char* text : {"", "127.0.0.1", "127.0.0.1:", "gpu1:80", "127.0.0.1:65536", "::1"}) {
    const auto named = sockets.name({text}, {});
    REQUIRE_MESSAGE(!named, text);
    CHECK(named.error().status == TRC_INVALID);
  }
  CHECK(sockets.name({"[::1]:80", "10.0.0.1:80"}, {}));
}
