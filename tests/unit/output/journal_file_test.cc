#include "launcher/output/journal_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/placement.h"
#include "tests/unit/output/turn.h"

using namespace trainrun;
using output::JournalFile;

namespace {

namespace journal = core::journal;

struct Scene {
  JournalFile& open(Fd fd, std::size_t most = 1u << 20) {
    return file.emplace(
        loop, std::move(fd), "j", [this](const std::string& line) { said.push_back(line); }, most);
  }
  void close(Duration wait = test::time_limit) {
    bool over = false;
    file->close(io::Loop::now() + wait, [&over] { over = true; });
    test::run_until(loop, [&over] { return over; });
  }
  io::Loop loop;
  std::vector<std::string> said;
  std::optional<JournalFile> file;
};

journal::Header header() {
  journal::Header it{"1.0", "b0b", "then", Instant{seconds(5)}, {}, {}};
  it.job.hosts.hosts = {{.name = "gpu0", .slots = 1}};
  it.job.programs.push_back({{"./train"}, 1, "/w"});
  it.first = *core::place(it.job, Generation{1});
  return it;
}

const core::JobEvent lost = core::HostLost{HostIndex{0}, std::string(990, 'x')};

// How many steps are in there, and how it ends: "3 over", "3 too slow", "3".
std::string told(const std::string& bytes) {
  auto reader = journal::Reader::open(bytes);
  if (!reader) return reader.error().message;
  for (int steps = 0;; ++steps) {
    const auto entry = reader->next();
    if (!entry) return entry.error().message;
    if (!*entry) return std::to_string(steps) + (reader->torn() ? " torn" : "");
    if (const auto* end = std::get_if<journal::End>(&**entry))
      return std::to_string(steps) + (end->why == journal::End::Why::job_over ? " over" : " too slow");
  }
}

std::string content(const std::string& path) { return read_file(path, 1u << 24).value_or("unreadable"); }

struct Folder {
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() {
    for (const auto* name : {"/j", "/0123.journal"}) ::unlink((path + name).c_str());
    ::rmdir(path.c_str());
  }
  std::string path = "/tmp/trainrun-journal.XXXXXX";
};

}  // namespace

TEST_SUITE("output.journal_file") {
  TEST_CASE("what happened is in the file, which nobody else can read, and ends with the job") {
    Folder folder;
    for (const int steps : {3, 1}) {  // written anew
      auto fd = output::open_journal(folder.path + "/j", "0123");
      REQUIRE(fd);
      Scene scene;
      auto& file = scene.open(std::move(*fd));
      file.begin(header());
      for (int i = 0; i < steps; ++i) file.step(Instant{seconds(6 + i)}, lost, {});
      scene.close();
      CHECK(scene.said.empty());
      CHECK(told(content(folder.path + "/j")) == std::to_string(steps) + " over");
    }
    struct stat about {};
    REQUIRE(::stat((folder.path + "/j").c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0600);
  }

  TEST_CASE("in a directory it has the name of the job") {
    Folder folder;
    CHECK(output::open_journal(folder.path, "0123"));
    CHECK(output::open_journal(folder.path + "/made/here/", "0123"));
    CHECK(::access((folder.path + "/made/here/0123.journal").c_str(), F_OK) == 0);
    CHECK(::access((folder.path + "/0123.journal").c_str(), F_OK) == 0);
  }

  TEST_CASE("a file that is no journal, or is being written, is left alone") {
    Folder folder;
    const auto path = folder.path + "/j";
    {
      const Fd other(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
      REQUIRE(write_all(other.get(), "precious"));
    }
    const auto refused = output::open_journal(path, "0123");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message ==
          "--journal: cannot write to '" + path +
              "': it exists and is not a trainrun journal; the job goes on without it");
    CHECK(content(path) == "precious");
    ::unlink(path.c_str());
    const auto first = output::open_journal(path, "0123");
    REQUIRE(first);
    const auto second = output::open_journal(path, "0123");
    REQUIRE_FALSE(second);
    CHECK(second.error().message.find("another job writes to it") != std::string::npos);
  }

  TEST_CASE("a file that cannot be made, and a pipe that nobody reads, are errors") {
    CHECK(output::open_journal("/nosuchfolder/j", "0123").error().message ==
          "--journal: cannot write to '/nosuchfolder/j': No such file or directory; the job goes on without "
          "it");
    Folder folder;
    REQUIRE(::mkfifo((folder.path + "/j").c_str(), 0600) == 0);
    CHECK(output::open_journal(folder.path + "/j", "0123").error().message.find("nobody reads that pipe") !=
          std::string::npos);
  }

  TEST_CASE("a reader that is too slow ends the journal, once, and finds that in it") {
    auto ends = make_pipe();
    REQUIRE(ends);
    Scene scene;
    auto& file = scene.open(std::move(ends->second), 10'000);
    file.begin(header());
    for (int i = 0; i < 200; ++i) {  // a pipe holds 64 KiB
      file.step(Instant{seconds(6)}, lost, {});
      bool turned = false;
      scene.loop.post([&turned] { turned = true; });
      test::run_until(scene.loop, [&turned] { return turned; });
    }
    CHECK(scene.said ==
          std::vector<std::string>{"--journal: 'j' is too slow: the journal ends here, the job goes on"});
    std::string got;
    char buffer[65536];
    bool over = false;
    file.close(io::Loop::now() + test::time_limit, [&over] { over = true; });
    test::run_until(scene.loop, [&] {
      pollfd ready{ends->first.get(), POLLIN, 0};
      while (::poll(&ready, 1, 0) == 1) {
        const auto n = ::read(ends->first.get(), buffer, sizeof buffer);
        if (n <= 0) break;
        got.append(buffer, static_cast<std::size_t>(n));
      }
      return over;
    });
    const auto words = told(got);
    CHECK(words.ends_with(" too slow"));
    CHECK(std::stoi(words) > 50);
    CHECK(std::stoi(words) < 100);
    CHECK(scene.said.size() == 1);
  }

  TEST_CASE("a full disk ends it with one line") {
    auto fd = output::open_journal("/dev/full", "0123");
    REQUIRE(fd);
    Scene scene;
    auto& file = scene.open(std::move(*fd));
    file.begin(header());
    for (int i = 0; i < 5; ++i) file.step(Instant{seconds(6)}, lost, {});
    scene.close();
    CHECK(scene.said ==
          std::vector<std::string>{
              "--journal: 'j' cannot be written: No space left on device; the job goes on without it"});
  }
}
