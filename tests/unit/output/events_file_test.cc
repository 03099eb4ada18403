#include "launcher/output/events_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/output/turn.h"

using namespace trainrun;
using output::EventsFile;

namespace {

struct Scene {
  EventsFile& open(Fd fd, std::size_t most = 1u << 20) {
    return file.emplace(
        loop, std::move(fd), "events", [this](const std::string& line) { said.push_back(line); }, most);
  }
  void close(Duration wait = test::time_limit) {
    bool over = false;
    file->close(io::Loop::now() + wait, [&over] { over = true; });
    test::run_until(loop, [&over] { return over; });
  }
  io::Loop loop;
  std::vector<std::string> said;
  std::optional<EventsFile> file;
};

// What is there now, without waiting.
std::string take(int fd) {
  std::string bytes;
  char buffer[65536];
  pollfd ready{fd, POLLIN, 0};
  while (::poll(&ready, 1, 0) == 1) {
    const auto n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) break;
    bytes.append(buffer, static_cast<std::size_t>(n));
  }
  return bytes;
}

std::string content(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(fd);
  return take(fd.get());
}

struct Folder {
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() {
    ::unlink((path + "/events").c_str());
    ::rmdir(path.c_str());
  }
  std::string path = "/tmp/trainrun-events.XXXXXX";
};

}  // namespace

TEST_SUITE("output.events_file") {
  TEST_CASE("a file is made, and lines are added to what it holds") {
    Folder folder;
    for (const std::string line : {"one\n", "two\n"}) {
      auto fd = output::open_events(folder.path + "/events");
      REQUIRE(fd);
      Scene scene;
      scene.open(std::move(*fd)).write(line);
      scene.close();
      CHECK(scene.said.empty());
    }
    CHECK(content(folder.path + "/events") == "one\ntwo\n");
  }

  TEST_CASE("a file that cannot be made is an error that names it") {
    const auto fd = output::open_events("/nosuchfolder/events");
    REQUIRE_FALSE(fd);
    CHECK(fd.error().message ==
          "--events: cannot write to '/nosuchfolder/events': No such file or directory; the job goes on "
          "without it");
  }

  TEST_CASE("a named pipe that nobody reads is an error, and is not waited for") {
    Folder folder;
    REQUIRE(::mkfifo((folder.path + "/events").c_str(), 0600) == 0);
    CHECK_FALSE(output::open_events(folder.path + "/events"));
  }

  TEST_CASE("a descriptor is taken by its number, if it can be written to") {
    CHECK(output::side_descriptor("fd:7") == 7);
    for (const auto* target : {"fd:", "fd:x", "fd:-1", "fd", "file", "fd:99999999"})
      CHECK_FALSE(output::side_descriptor(target));
    auto ends = make_pipe();
    REQUIRE(ends);
    CHECK_FALSE(output::open_events("fd:" + std::to_string(ends->first.get())));
    CHECK_FALSE(output::open_events("fd:60000"));
    auto fd = output::open_events("fd:" + std::to_string(ends->second.release()));
    REQUIRE(fd);
    CHECK((::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC) != 0);
    Scene scene;
    scene.open(std::move(*fd)).write("line\n");
    scene.close();
    CHECK(take(ends->first.get()) == "line\n");
  }

  TEST_CASE("what the queue cannot hold is dropped and counted where it is missing") {
    auto ends = make_pipe();
    REQUIRE(ends);
    Scene scene;
    const std::string line(999, 'x');
    auto& file = scene.open(std::move(ends->second), 10'000);
    for (int i = 0; i < 200; ++i) file.write(line + "\n");  // a pipe holds 64 KiB
    std::string got;
    test::run_until(scene.loop, [&] {
      got += take(ends->first.get());
      return got.find("dropped") != std::string::npos && got.back() == '\n';
    });
    file.write("after\n");
    scene.close();
    got += take(ends->first.get());
    std::size_t whole = 0, dropped = 0;
    for (std::size_t from = 0; from < got.size();) {
      const auto end = got.find('\n', from);
      REQUIRE(end != std::string::npos);
      const auto one = got.substr(from, end - from);
      if (one == line) ++whole;
      if (one.starts_with("{\"dropped\":")) dropped += std::stoul(one.substr(11));
      from = end + 1;
    }
    CHECK(whole + dropped == 200);
    CHECK(dropped > 0);
    CHECK(got.ends_with("after\n"));
    CHECK(scene.said.empty());
  }

  TEST_CASE("a reader that has gone is told once, and nothing is written any more") {
    auto ends = make_pipe();
    REQUIRE(ends);
    Scene scene;
    auto& file = scene.open(std::move(ends->second));
    ::signal(SIGPIPE, SIG_IGN);
    ends->first.reset();
    for (int i = 0; i < 3; ++i) file.write("line\n");
    scene.close();
    REQUIRE(scene.said.size() == 1);
    CHECK(scene.said[0] == "--events: 'events' cannot be written: Broken pipe; the job goes on without it");
  }

  TEST_CASE("a full disk is told once") {
    Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    REQUIRE(full);
    Scene scene;
    auto& file = scene.open(std::move(full));
    for (int i = 0; i < 3; ++i) file.write("line\n");
    scene.close();
    REQUIRE(scene.said.size() == 1);
    CHECK(scene.said[0] ==
          "--events: 'events' cannot be written: No space left on device; the job goes on without it");
  }

  TEST_CASE("a reader that takes nothing keeps nobody from leaving") {
    auto ends = make_pipe();
    REQUIRE(ends);
    Scene scene;
    auto& file = scene.open(std::move(ends->second));
    for (int i = 0; i < 200; ++i) file.write(std::string(999, 'x') + "\n");
    scene.close(milliseconds(20));
    REQUIRE(scene.said.size() == 1);
    CHECK(scene.said[0] == "--events: 'events' did not take its end in time");
  }

  TEST_CASE("who asks again waits for no reader") {
    auto ends = make_pipe();
    REQUIRE(ends);
    Scene scene;
    auto& file = scene.open(std::move(ends->second));
    for (int i = 0; i < 200; ++i) file.write(std::string(999, 'x') + "\n");
    file.end_by(io::Loop::now());  // before close() nobody waits
    bool over = false;
    file.close(io::Loop::now() + seconds(3600), [&over] { over = true; });
    CHECK_FALSE(over);
    file.end_by(io::Loop::now());
    test::run_until(scene.loop, [&over] { return over; });
    CHECK(scene.said.size() == 1);
  }
}
