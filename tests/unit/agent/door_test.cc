#include "launcher/agent/door.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <filesystem>

using namespace trainrun;

namespace {

constexpr Duration patience = seconds(20);

sockaddr_in loopback(std::uint16_t port, in_addr_t address = INADDR_LOOPBACK) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(address);
  name.sin_port = htons(port);
  return name;
}

Fd connected(std::uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto name = loopback(port);
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
  return fd;
}

int bind_error(std::uint16_t port, bool reuse, bool listen) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (reuse) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto name = loopback(port, INADDR_ANY);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return errno;
  return listen && ::listen(fd.get(), 1) != 0 ? errno : 0;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

// The far side of the Link: remembers what comes, and echoes it in capitals when told to.
struct Scene {
  Scene()
      : door(loop, {[this](StreamId stream) { opened.push_back(stream), look(); },
                    [this](StreamId stream, std::string_view bytes, bool end) {
                      got += bytes;
                      ended += end ? 1 : 0;
                      if (echo && !bytes.empty()) door.give(stream, bytes, false);
                      look();
                    },
                    [this](uid_t user) { refused.push_back(user), look(); }}) {}
  void run(std::function<bool()> wanted) {
    until = std::move(wanted);
    io::Timer limit(loop);
    limit.arm(io::Loop::now() + patience, [this] { loop.stop(); });
    loop.post([this] { look(); });
    loop.run();
    const bool reached = until();
    until = nullptr;
    loop.context().restart();
    CHECK(reached);
  }
  void look() {
    if (until && until()) loop.stop();
  }
  io::Loop loop;
  std::vector<StreamId> opened;
  std::vector<uid_t> refused;
  std::string got;
  int ended = 0;
  bool echo = false;
  std::function<bool()> until;
  agent::Door door;
};

std::string read_some(int fd) {
  char buffer[65536];
  const auto n = ::recv(fd, buffer, sizeof buffer, 0);
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string();
}

}  // namespace

TEST_SUITE("door") {
  TEST_CASE("bytes go both ways, each side ends by itself, and no descriptor stays") {
    Scene scene;
    scene.echo = true;
    const auto answer = scene.door.open(0, 0);
    REQUIRE(answer.error == 0);
    const auto before = open_descriptors();
    for (const bool worker_first : {true, false}) {
      CAPTURE(worker_first);
      scene.got.clear();
      scene.ended = 0;
      auto worker = connected(answer.port);
      REQUIRE(write_all(worker.get(), "ping"));
      scene.run([&] { return scene.got == "ping"; });
      CHECK(read_some(worker.get()) == "ping");
      const auto stream = scene.opened.back();
      if (worker_first) {
        ::shutdown(worker.get(), SHUT_WR);
        scene.run([&] { return scene.ended == 1; });
        scene.door.give(stream, "bye", true);
        CHECK(read_some(worker.get()) == "bye");
        CHECK(read_some(worker.get()).empty());
      } else {
        scene.door.give(stream, "bye", true);
        CHECK(read_some(worker.get()) == "bye");
        CHECK(read_some(worker.get()).empty());
        worker.reset();
        scene.run([&] { return scene.ended == 1; });
      }
      worker.reset();
      CHECK(open_descriptors() == before);
      CHECK(scene.ended == 1);
    }
    CHECK(scene.opened.size() == 2);
    CHECK(scene.opened[0] != scene.opened[1]);
  }

  TEST_CASE("what a slow worker has not read yet is kept for it") {
    Scene scene;
    const auto answer = scene.door.open(0, 0);
    auto worker = connected(answer.port);
    scene.run([&] { return scene.opened.size() == 1; });
    const std::string text(8u << 20, 'x');
    scene.door.give(scene.opened[0], text, true);
    std::string got;
    ::shutdown(worker.get(), SHUT_WR);
    scene.run([&] {
      char buffer[65536];
      for (ssize_t n; (n = ::recv(worker.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0;)
        got.append(buffer, static_cast<std::size_t>(n));
      if (got.size() < text.size()) scene.loop.post([&] { scene.look(); });
      return got.size() == text.size();
    });
    CHECK((got == text));
  }

  TEST_CASE("another user's connection is closed, told, and no stream") {
    if (::getuid() != 0) return;
    Scene scene;
    const auto opened = scene.door.open(0, 0);
    REQUIRE(opened.error == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setuid(65534) != 0 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) ::_exit(1);
      const auto far = connected(opened.port);
      ::_exit(read_some(far.get()).empty() ? 0 : 1);
    }
    scene.run([&] { return !scene.refused.empty(); });
    CHECK(scene.refused == std::vector<uid_t>{65534});
    CHECK(scene.opened.empty());
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }

  TEST_CASE("a range without a free port is refused with the system's reason") {
    Scene scene, other;
    const auto answer = scene.door.open(0, 0);
    CHECK(other.door.open(answer.port, answer.port).error == EADDRINUSE);
    CHECK(other.door.open(2000, 1000).error == EINVAL);
    CHECK(scene.door.open(0, 0).port == answer.port);  // once is enough
    scene.door.give(StreamId{99}, "for nobody", true);
  }

  TEST_CASE("a held port goes to a listener that reuses addresses, and to nobody else") {
    const auto held = agent::hold_port(0, 0);
    REQUIRE(held.answer.error == 0);
    REQUIRE(held.answer.port != 0);
    CHECK(bind_error(held.answer.port, false, false) == EADDRINUSE);
    CHECK(bind_error(held.answer.port, true, true) == 0);
    CHECK(agent::hold_port(5, 4).answer.error == EINVAL);
  }

  TEST_CASE("a held port is nobody else's to hold, and the next one is another") {
    // Two neighbours that are free; others may take one between the look and the test, so it looks again.
    std::uint16_t port = 0;
    for (int tries = 0; tries < 100 && port == 0; ++tries) {
      const auto held = agent::hold_port(0, 0);
      REQUIRE(held.answer.error == 0);
      const auto next = static_cast<std::uint16_t>(held.answer.port + 1);
      if (next > 1024 && bind_error(next, false, true) == 0) port = held.answer.port;
    }
    REQUIRE(port != 0);
    const auto last = static_cast<std::uint16_t>(port + 1);
    auto first = agent::hold_port(port, last);
    CHECK(first.answer.port == port);
    auto second = agent::hold_port(port, last);  // another job on this host, with the same range
    CHECK(second.answer.port == last);
    second.socket.reset();
    second = agent::hold_port(port, last, port);
    CHECK(second.answer.port == last);
    first.socket.reset();
    CHECK(agent::hold_port(port, last, last).answer.port == port);
    second.socket.reset();
    CHECK(agent::hold_port(port, last, port).answer.port == last);
    CHECK(agent::hold_port(port, port, port).answer.port == port);  // there is no other

    // A connection of the last world that lingers on (TIME_WAIT) makes the port the last choice, and no
    // error.
    {
      const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const int on = 1;
      ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      const auto name = loopback(port);
      REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
      REQUIRE(::listen(listener.get(), 1) == 0);
      const auto client = connected(port);
      Fd server(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      REQUIRE(server);
      server.reset();  // the side that ends first is the one that lingers
      CHECK(read_some(client.get()).empty());
    }
    CHECK(agent::hold_port(port, last).answer.port == last);
    CHECK(agent::hold_port(port, port).answer.port == port);
  }
}
