#include "launcher/agent/break_connections.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "launcher/base/fd.h"

using namespace trainrun;

namespace {

constexpr int time_limit = 20;  // seconds

struct Listener {
  Listener() : socket(::socket(AF_INET, SOCK_STREAM, 0)) {
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&at), size) == 0);
    REQUIRE(::listen(socket.get(), 4) == 0);
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
  }
  [[nodiscard]] Fd connect() const {
    Fd fd(::socket(AF_INET, SOCK_STREAM, 0));
    REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    const timeval limit{time_limit, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
  }
  [[nodiscard]] std::string name() const {
    return std::string(reinterpret_cast<const char*>(&at.sin_addr), sizeof at.sin_addr) +
           std::string(reinterpret_cast<const char*>(&at.sin_port), sizeof at.sin_port);
  }
  Fd socket;
  sockaddr_in at{};
};

// A process that accepts two connections, and ends with how many of them it has seen the end of.
struct Rank {
  explicit Rank(const Listener& one, const Listener& other) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      ::alarm(2 * time_limit);
      const int first = ::accept(one.socket.get(), nullptr, nullptr);
      const int second = ::accept(other.socket.get(), nullptr, nullptr);
      if (::write(ready[1], "r", 1) != 1) ::_exit(99);
      char byte = 0;
      const bool ended = ::read(first, &byte, 1) == 0;
      const bool lives = ::read(second, &byte, 1) == 1;
      ::_exit((ended ? 1 : 0) + (lives ? 2 : 0));
    }
    ::close(ready[1]);
    from = Fd(ready[0]);
  }
  ~Rank() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  void wait_until_it_has_both() const {
    char byte = 0;
    REQUIRE(::read(from.get(), &byte, 1) == 1);
  }
  int exit_code() {
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  pid_t pid = -1;
  Fd from;
};

}  // namespace

TEST_CASE("a connection that another process has accepted ends for both, and no other one") {
  const Listener mesh, elsewhere;
  Rank rank(mesh, elsewhere);
  const auto peer = mesh.connect(), stranger = elsewhere.connect();
  rank.wait_until_it_has_both();

  CHECK(agent::break_connections({mesh.name()}, {rank.pid}) == 1);
  char byte = 0;
  CHECK(::read(peer.get(), &byte, 1) == 0);
  CHECK(::write(stranger.get(), "x", 1) == 1);
  CHECK(rank.exit_code() == 3);
}

TEST_CASE("so does one that it has made, by the address of the other side") {
  const Listener mesh, elsewhere;
  Rank rank(mesh, elsewhere);
  const auto peer = mesh.connect(), stranger = elsewhere.connect();
  rank.wait_until_it_has_both();
  // Of this process, which also listens there: nobody would come to a mesh again.
  CHECK(agent::break_connections({mesh.name()}, {::getpid()}) == 1);
  char byte = 0;
  CHECK(::read(peer.get(), &byte, 1) == 0);
  CHECK(::write(stranger.get(), "x", 1) == 1);
  CHECK(rank.exit_code() == 3);
  const auto again = mesh.connect();
}

TEST_CASE("another address, and a process that is gone: nothing is broken") {
  const Listener mesh, elsewhere;
  Rank rank(mesh, elsewhere);
  const auto peer = mesh.connect(), stranger = elsewhere.connect();
  rank.wait_until_it_has_both();
  auto another = mesh.name();
  another[3] = 9;
  CHECK(agent::break_connections({another, "", mesh.name().substr(0, 5)}, {rank.pid}) == 0);
  CHECK(agent::break_connections({mesh.name()}, {}) == 0);
  CHECK(agent::break_connections({mesh.name()}, {-1, 0}) == 0);
  CHECK(::write(peer.get(), "x", 1) == 1);
  CHECK(::write(stranger.get(), "x", 1) == 1);
  CHECK(rank.exit_code() == 2);
}
