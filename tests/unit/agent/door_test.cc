#include "launcher/agent/door.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <filesystem>

#include "launcher/base/fd.h"

using namespace trainrun;

namespace {

constexpr Duration time_limit = seconds(20);

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = htons(port);
  return name;
}

Fd connected(std::uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto name = loopback(port);
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
  return fd;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

// The far side of the Link: remembers what comes, and echoes it in capitals when told to.
struct Scene {
  Scene()
      : door(loop, last_stream,
             {[this](StreamId stream, const agent::PeerOwner&) { opened.push_back(stream), look(); },
              [this](StreamId stream, std::string_view bytes, bool end) {
                got += bytes;
                ended += end ? 1 : 0;
                if (echo && !bytes.empty()) door.give(stream, bytes, false);
                look();
              },
              [this](StreamId, std::uint64_t bytes) { taken += bytes, look(); },
              [this](uid_t user) { refused.push_back(user), look(); }}) {}
  void run(std::function<bool()> wanted) {
    until = std::move(wanted);
    io::Timer limit(loop);
    limit.arm(io::Loop::now() + time_limit, [this] { loop.stop(); });
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
  std::uint64_t taken = 0;
  bool echo = false;
  std::function<bool()> until;
  StreamId last_stream{};
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

  TEST_CASE("a worker that reads slowly is never cut off, and what it takes is told") {
    Scene scene;
    const auto answer = scene.door.open(0, 0);
    const auto worker = connected(answer.port);
    scene.run([&] { return scene.opened.size() == 1; });
    const std::string text(40u << 20, 'x');
    scene.door.give(scene.opened[0], text, false);
    std::size_t got = 0;
    scene.run([&] {
      char buffer[65536];
      const auto n = ::recv(worker.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (n > 0) got += static_cast<std::size_t>(n);
      if (got < text.size()) scene.loop.post([&] { scene.look(); });
      return got == text.size() && scene.taken + wire::stream_window / 4 > text.size();
    });
    CHECK(scene.ended == 0);
    CHECK(scene.taken <= text.size());
  }

  TEST_CASE("a worker is read no further than its window, until what it said has been taken") {
    Scene scene;
    const auto answer = scene.door.open(0, 0);
    const auto worker = connected(answer.port);
    scene.run([&] { return scene.opened.size() == 1; });
    const std::string text(3 * wire::stream_window, 'x');
    std::size_t sent = 0;
    const auto send_more = [&] {
      const auto n = ::send(worker.get(), text.data(), text.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<std::size_t>(n);
      if (sent < text.size()) scene.loop.post([&] { scene.look(); });
    };
    scene.run([&] {
      send_more();
      return scene.got.size() >= wire::stream_window;
    });
    bool asked = false;
    for (int turns = 0; turns < 100; ++turns) {  // nothing more comes, however often the loop turns
      asked = false;
      scene.loop.post([&] { asked = true, scene.look(); });
      scene.run([&] { return asked; });
    }
    CHECK(scene.got.size() < wire::stream_window + 65536);
    const auto told = scene.got.size();
    std::uint64_t paid = 0;
    scene.run([&] {
      send_more();
      if (scene.got.size() - paid >= wire::stream_window / 4) {
        scene.door.taken(scene.opened[0], scene.got.size() - paid);
        paid = scene.got.size();
      }
      return scene.got.size() == text.size();
    });
    CHECK(told < scene.got.size());
    scene.door.taken(StreamId{99}, 1);  // of nobody
  }

  // Who is not root cannot become another: doctest counts it as skipped.
  TEST_CASE("another user's connection is closed, told, and no stream" * doctest::skip(::getuid() != 0)) {
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

  TEST_CASE("a worker that comes while descriptors are short is let in when there are some again") {
    Scene scene;
    const auto opened = scene.door.open(0, 0);
    REQUIRE(opened.error == 0);
    const auto worker = connected(opened.port);
    const Fd next(::dup(worker.get()));
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    auto few = limit;
    few.rlim_cur = static_cast<rlim_t>(next.get()) + 2;  // one more than there are: to accept, not to ask
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    bool tried = false;
    io::Timer timer(scene.loop);
    timer.arm(io::Loop::now() + milliseconds(100), [&] { tried = true, scene.look(); });
    scene.run([&] { return tried; });
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    REQUIRE(write_all(worker.get(), "ping"));
    scene.run([&] { return scene.got == "ping"; });
    CHECK(scene.opened.size() == 1);
  }

  TEST_CASE("a range without a free port is refused with the system's reason") {
    Scene scene, other;
    const auto answer = scene.door.open(0, 0);
    CHECK(other.door.open(answer.port, answer.port).error == EADDRINUSE);
    CHECK(other.door.open(2000, 1000).error == EINVAL);
    CHECK(scene.door.open(0, 0).port == answer.port);  // once is enough
    scene.door.give(StreamId{99}, "for nobody", true);
  }
}
