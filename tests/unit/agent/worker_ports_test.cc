// Streams that the launcher opens towards a worker's port.
#include "launcher/agent/worker_ports.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>

#include "launcher/base/fd.h"

using namespace trainrun;

namespace {

constexpr Duration time_limit = seconds(20);
constexpr std::uint32_t loopback = INADDR_LOOPBACK;

struct Scene {
  Scene() : listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;  // on all addresses, as Horovod's service
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
    REQUIRE(::listen(listener.get(), 8) == 0);
    socklen_t size = sizeof name;
    REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size) == 0);
    port = ntohs(name.sin_port);
  }
  Fd accept() {
    Fd fd;
    run([&] {
      if (!fd) fd = Fd(::accept(listener.get(), nullptr, nullptr));
      return static_cast<bool>(fd);
    });
    const timeval limit{std::chrono::duration_cast<std::chrono::seconds>(time_limit).count(), 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
  }
  void run(const std::function<bool()>& wanted) {
    const auto until = io::Loop::now() + time_limit;
    while (!wanted() && io::Loop::now() < until) {
      loop.context().restart();
      loop.context().run_one_for(std::chrono::milliseconds(5));
    }
    CHECK(wanted());
  }

  Fd listener;
  std::uint16_t port = 0;
  io::Loop loop;
  std::string got;
  int ended = 0;
  std::vector<int> refused;
  agent::WorkerPorts ports{loop,
                           {{[this](StreamId, std::string_view bytes, bool end) {
                              got += bytes;
                              ended += end ? 1 : 0;
                            }},
                            [this](StreamId, int error) { refused.push_back(error); }}};
};

std::string read_from(const Fd& fd) {
  char buffer[64];
  const auto n = ::recv(fd.get(), buffer, sizeof buffer, 0);
  CHECK(n >= 0);  // else nothing came in time
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string();
}

}  // namespace

TEST_CASE("what the launcher says comes to the worker, and its answer back") {
  Scene scene;
  scene.ports.open({{1}, loopback, scene.port});
  scene.ports.give({1}, "hello", false);
  const auto worker = scene.accept();
  CHECK(read_from(worker) == "hello");
  REQUIRE(::send(worker.get(), "yes", 3, 0) == 3);
  scene.run([&] { return scene.got == "yes"; });
  CHECK(scene.ended == 0);
  scene.ports.give({1}, {}, true);
  CHECK(read_from(worker).empty());  // closed
  CHECK(scene.refused.empty());
}

TEST_CASE("a worker that closes is told, and a stream that is over is not heard of again") {
  Scene scene;
  scene.ports.open({{1}, loopback, scene.port});
  scene.accept().reset();
  scene.run([&] { return scene.ended == 1; });
  scene.ports.give({1}, {}, true);
  scene.ports.give({1}, "late", false);
  scene.ports.taken({1}, 1);
  CHECK(scene.ended == 1);
}

TEST_CASE("where nobody listens, and where it is not this host, nothing is opened") {
  Scene scene;
  const auto port = scene.port;
  scene.ports.open({{1}, 0xc0000201, port});  // 192.0.2.1, of no host at all
  scene.listener.reset();
  scene.ports.open({{2}, loopback, port});
  CHECK(scene.refused == std::vector<int>{EACCES, ECONNREFUSED});
}

// Who is not root cannot become another: doctest counts it as skipped.
TEST_CASE("a port of another user is not opened" * doctest::skip(::getuid() != 0)) {
  Scene scene;
  int report[2];
  REQUIRE(::pipe2(report, O_CLOEXEC) == 0);
  const pid_t other = ::fork();
  REQUIRE(other >= 0);
  if (other == 0) {
    ::alarm(60);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    if (::setuid(65534) != 0) ::_exit(1);
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 || ::listen(fd, 1) != 0 ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0 ||
        ::write(report[1], &name.sin_port, sizeof name.sin_port) != sizeof name.sin_port)
      ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  ::close(report[1]);
  in_port_t port = 0;
  const auto n = ::read(report[0], &port, sizeof port);
  CHECK(n == sizeof port);
  scene.ports.open({{1}, loopback, ntohs(port)});
  CHECK(scene.refused == std::vector<int>{EACCES});
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  ::close(report[0]);
}
