#include "launcher/output/file_thread.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>

#include "launcher/base/fault.h"
#include "launcher/base/fd.h"
#include "launcher/output/writer.h"
#include "tests/unit/output/turn.h"

using namespace trainrun;
using output::FileThread;
using test::run_until;

namespace {

struct TemporaryFile {
  TemporaryFile() : fd(::mkstemp(path)) { ::unlink(path); }
  std::string content() const {
    std::string bytes(static_cast<std::size_t>(std::max<off_t>(::lseek(fd.get(), 0, SEEK_END), 0)), '\0');
    CHECK(::pread(fd.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    return bytes;
  }
  char path[32] = "/tmp/file_thread_test.XXXXXX";
  Fd fd;
};

// A write to a full pipe hangs as one to a file system that stalls.
struct Stalled {
  Stalled() : ends(std::move(*make_pipe())) {}
  void go_on() {
    const Fd reader = std::move(ends.first);
    char buffer[65536];
    pollfd ready{reader.get(), POLLIN, 0};
    while (::poll(&ready, 1, 20000) == 1) {
      const auto n = ::read(reader.get(), buffer, sizeof buffer);
      if (n <= 0) return;
      got += static_cast<std::size_t>(n);
      if (got >= wanted) return;
    }
  }
  FdPair ends;
  std::size_t got = 0, wanted = 0;
};

}  // namespace

TEST_SUITE("file thread") {
  // First, while no thread is left that a test gave up: fault points are not changed under threads.
  TEST_CASE("a write that fails is told with its reason") {
    fault::configure("output.file=fail:28");
    io::Loop loop;
    TemporaryFile file;
    std::vector<int> told;
    FileThread files(loop, {});
    files.write(files.add(file.fd.get(), "log", [&told](int error) { told.push_back(error); }), "x");
    run_until(loop, [&] { return !told.empty(); });
    run_until(loop, [&] { return files.idle(); });
    fault::configure("");
    CHECK(told == std::vector{ENOSPC});
    CHECK(files.lost() == 1);
  }

  TEST_CASE("files get every byte in order, whatever the loop does meanwhile") {
    io::Loop loop;
    TemporaryFile one, other;
    FileThread files(loop, {});
    const auto a = files.add(one.fd.get(), "one", {});
    const auto b = files.add(other.fd.get(), "other", {});
    std::string expected, expected_other;
    for (int i = 0; i < 20'000; ++i) {
      const auto line = std::to_string(i) + "\n";
      files.write(a, line);
      expected += line;
      if (i % 3 == 0) {
        files.write(b, line);
        expected_other += line;
      }
    }
    run_until(loop, [&] { return files.idle(); });
    CHECK(files.backlog() == 0);
    CHECK(files.lost() == 0);
    CHECK((one.content() == expected));
    CHECK((other.content() == expected_other));
  }

  TEST_CASE("what is taken without a copy arrives in order with what is copied, and leaves no byte behind") {
    io::Loop loop;
    TemporaryFile file;
    FileThread files(loop, {});
    const auto number = files.add(file.fd.get(), "log", {});
    std::string expected, bytes;
    for (std::size_t i = 0; i < 400; ++i) {
      if (i % 20 == 19) run_until(loop, [&] { return files.idle(); });  // then there is room to give back
      const std::string piece((i * 7919) % 300'000 + 1, static_cast<char>('a' + i % 26));
      expected += piece;
      if (i % 3 == 0) {
        files.write(number, piece);
        continue;
      }
      bytes += piece;
      files.take(number, bytes);
      REQUIRE(bytes.empty());
    }
    run_until(loop, [&] { return files.idle(); });
    CHECK((file.content() == expected));
  }

  TEST_CASE("a file that stalls holds up no loop; it is told once, and all is written when it goes on") {
    io::Loop loop;
    Stalled stalled;
    int told = 0, drained = 0;
    std::string who;
    FileThread files(loop,
                     {[&drained] { ++drained; },
                      [&](const std::string& name, Duration) {
                        ++told;
                        who = name;
                      }},
                     milliseconds(20));
    const auto file = files.add(stalled.ends.second.get(), "log", {});
    stalled.wanted = 2 * output::Writer::low_water;
    files.write(file, std::string(stalled.wanted, 'x'));
    run_until(loop, [&] { return told > 0; });  // the loop lives
    CHECK(who == "log");
    CHECK(files.backlog() > 0);
    CHECK(drained == 0);
    stalled.go_on();
    CHECK(stalled.got == stalled.wanted);
    run_until(loop, [&] { return files.idle(); });
    CHECK(drained == 1);
    CHECK(told == 1);
    CHECK(files.lost() == 0);
  }

  TEST_CASE(
      "at the end a stalled file is given up, what it did not get is counted, and others can still be "
      "written") {
    ::signal(SIGPIPE, SIG_IGN);
    io::Loop loop;
    Stalled stalled;
    TemporaryFile report;
    {
      FileThread files(loop, {});
      const auto log = files.add(std::move(stalled.ends.second), "log", {});
      const auto err = files.add(report.fd.get(), "stderr", {});
      files.write(log, std::string(1u << 20, 'x'));
      files.write(err, "never\n");
      CHECK_FALSE(files.idle());
      const auto left = files.give_up();
      CHECK(left.name == "log");
      CHECK(left.bytes > 6);
      CHECK(left.bytes <= (1u << 20) + 6);
      CHECK(files.lost() == left.bytes);
      files.write(err, "the report\n");
      run_until(loop, [&] { return files.idle(); });
      CHECK(report.content() == "the report\n");
    }
    stalled.ends.first.reset();  // the write that hung returns, to nobody
  }

  TEST_CASE("what a full disk cannot take is dropped and told once, and the file says what is missing") {
    TemporaryFile file;
    const auto handler = ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit small{6, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    io::Loop loop;
    std::vector<int> told;
    FileThread files(loop, {});
    const auto id = files.add(file.fd.get(), "log", [&told](int error) { told.push_back(error); });
    files.write(id, "one\ntwo\n");  // "one\ntw" is all there is room for
    run_until(loop, [&] { return files.idle(); });
    files.write(id, "three\n");
    run_until(loop, [&] { return files.idle(); });
    CHECK(told == std::vector{EFBIG});
    CHECK(files.lost() == 8);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    ::signal(SIGXFSZ, handler);
    files.write(id, "four\n");
    run_until(loop, [&] { return files.idle(); });
    CHECK(file.content() == "one\ntw\ntrainrun: 8 bytes are missing here: File too large\nfour\n");
    REQUIRE(files.losses().size() == 1);
    CHECK(files.losses()[0].name == "log");
    CHECK(files.losses()[0].bytes == 8);
    CHECK(told.size() == 1);
  }

  TEST_CASE("other work is done in its turn") {
    io::Loop loop;
    TemporaryFile file;
    std::vector<std::string> said;
    FileThread::Handlers handlers;
    handlers.said = [&said](const std::string& line) { said.push_back(line); };
    FileThread files(loop, handlers);
    files.write(files.add(file.fd.get(), "log", {}), "before");
    std::string seen;
    files.later([&] {
      seen = file.content();
      return std::string("a line");
    });
    files.later([] { return std::string(); });
    run_until(loop, [&] { return files.idle(); });
    CHECK(seen == "before");
    CHECK(said == std::vector<std::string>{"a line"});
  }
}
