#include "launcher/output/writer.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/base/fd.h"
#include "tests/unit/output/turn.h"

using namespace trainrun;
using output::FileThreads;
using output::Writer;

namespace {

using test::time_limit;

// What is there now, without waiting.
std::string take(int fd, std::size_t most = 1u << 20) {
  std::string bytes;
  char buffer[65536];
  pollfd ready{fd, POLLIN, 0};
  while (bytes.size() < most && ::poll(&ready, 1, 0) == 1) {
    const auto n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) break;
    bytes.append(buffer, static_cast<std::size_t>(n));
  }
  return bytes;
}

std::string numbers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::to_string(i) + "\n";
  return text;
}

}  // namespace

TEST_SUITE("writer") {
  TEST_CASE("what is taken without a copy arrives in order with what is copied, and leaves no byte behind") {
    auto ends = make_pipe();
    REQUIRE(ends);
    io::Loop loop;
    FileThreads files(loop, {});
    Writer writer(loop, files, ends->second.get(), "stdout", {});
    std::string expected, bytes, got;
    for (std::size_t i = 0; i < 200; ++i) {
      const std::string piece((i * 7919) % 40'000 + 1, static_cast<char>('a' + i % 26));
      expected += piece;
      if (i % 3 == 0) {
        writer.write(piece);
      } else {
        bytes += piece;
        writer.take(bytes);
        REQUIRE(bytes.empty());
      }
      if (i % 7 == 0) got += take(ends->first.get());
    }
    test::run_until(loop, [&] { return (got += take(ends->first.get())).size() == expected.size(); });
    CHECK((got == expected));
  }

  TEST_CASE("a stalled reader holds nothing up, and gets every byte in order when it reads on") {
    const auto text = numbers(1'000'000);  // 6.9 MB: more than a pipe or a socket takes
    for (const bool socket : {false, true}) {
      CAPTURE(socket);
      auto ends = socket ? make_socket_pair() : make_pipe();
      REQUIRE(ends);
      io::Loop loop;
      FileThreads files(loop, {});
      int drained = 0;
      Writer writer(loop, files, ends->second.get(), "stdout", {[&drained] { ++drained; }, nullptr});
      writer.write(text);
      CHECK(writer.backlog() > Writer::low_water);
      CHECK((::fcntl(ends->second.get(), F_GETFL) & O_NONBLOCK) == 0);  // it is shared with others
      std::string got;
      io::Timer reader(loop), limit(loop);
      const std::function<void()> read = [&] {
        got += take(ends->first.get());
        if (got.size() < text.size()) return reader.arm(io::Loop::now(), read);
        limit.disarm();
      };
      limit.arm(io::Loop::now() + time_limit, [&] { loop.stop(); });
      read();
      loop.run();
      CHECK((got == text));
      CHECK(drained == 1);
      CHECK(writer.backlog() == 0);
    }
  }

  TEST_CASE("a file is left to the thread, and gets everything") {
    char path[] = "/tmp/writer_test.XXXXXX";
    const Fd file(::mkstemp(path));
    ::unlink(path);
    REQUIRE(file);
    io::Loop loop;
    FileThreads files(loop, {});
    Writer writer(loop, files, file.get(), "stdout", {});
    const auto text = numbers(200'000);
    writer.write(text);
    CHECK(writer.backlog() == 0);
    test::run_until(loop, [&] { return files.idle(); });
    std::string content(text.size() + 1, '\0');
    CHECK(::pread(file.get(), content.data(), content.size(), 0) == static_cast<ssize_t>(text.size()));
    content.pop_back();
    CHECK((content == text));
  }

  TEST_CASE("what a full device cannot take is dropped, told once and counted") {
    const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    REQUIRE(full);
    io::Loop loop;
    FileThreads files(loop, {});
    std::vector<int> told;
    bool closed = false;
    Writer writer(loop, files, full.get(), "stdout",
                  {nullptr, [&closed] { closed = true; }, [&told](int error) { told.push_back(error); }});
    writer.write("one\n");
    writer.write("three\n");
    CHECK(told == std::vector{ENOSPC});
    CHECK_FALSE(closed);
    CHECK(writer.backlog() == 0);
    CHECK(writer.lost() == 10);
  }

  TEST_CASE("a stream that was closed before us is told once, and what goes there is lost") {
    const Fd closed(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    REQUIRE(closed);
    io::Loop loop;
    FileThreads files(loop, {});
    std::vector<int> told;
    Writer writer(loop, files, closed.get(), "stdout",
                  {nullptr, nullptr, [&told](int error) { told.push_back(error); }});
    writer.write("one\n");
    writer.write("two\n");
    CHECK(told == std::vector{EBADF});
    CHECK(writer.lost() == 8);
    CHECK_FALSE(writer.closed());
    CHECK_FALSE(writer.usable());
  }

  TEST_CASE("a reader that is gone is reported once, and later writes are dropped") {
    ::signal(SIGPIPE, SIG_IGN);
    for (const bool socket : {false, true}) {
      CAPTURE(socket);
      auto ends = socket ? make_socket_pair() : make_pipe();
      REQUIRE(ends);
      io::Loop loop;
      FileThreads files(loop, {});
      int closed = 0;
      Writer writer(loop, files, ends->second.get(), "stdout", {nullptr, [&closed] { ++closed; }});
      writer.write("a");
      CHECK_FALSE(writer.closed());
      ends->first.reset();
      writer.write("b");
      writer.write("c");
      CHECK(writer.closed());
      CHECK(closed == 1);
      CHECK(writer.backlog() == 0);
      CHECK(writer.lost() == 2);
    }
  }

  TEST_CASE("a reader that goes while much waits for it releases those who wait") {
    ::signal(SIGPIPE, SIG_IGN);
    auto ends = make_pipe();
    REQUIRE(ends);
    io::Loop loop;
    FileThreads files(loop, {});
    int drained = 0, closed = 0;
    Writer writer(loop, files, ends->second.get(), "stdout",
                  {[&drained] { ++drained; }, [&closed] { ++closed; }});
    writer.write(std::string(4u << 20, 'x'));
    io::Timer limit(loop);
    limit.arm(io::Loop::now(), [&] { ends->first.reset(); });
    loop.run();
    CHECK(closed == 1);
    CHECK(drained == 1);
  }

  TEST_CASE("what is given up is counted, and what follows begins on a line of its own") {
    auto ends = make_pipe();
    REQUIRE(ends);
    io::Loop loop;
    FileThreads files(loop, {});
    int moved = 0;
    Writer writer(loop, files, ends->second.get(), "stdout",
                  {nullptr, nullptr, [](int) {}, [&moved] { ++moved; }});
    writer.write(std::string(100'000, 'x'));
    const auto waiting = writer.backlog();
    REQUIRE(waiting > 0);
    CHECK_FALSE(writer.idle());
    writer.give_up();
    CHECK(writer.idle());
    CHECK(writer.lost() == waiting);
    writer.write("the report\n");
    auto got = take(ends->first.get());
    moved = 0;
    test::run_until(loop, [&] { return writer.idle(); });
    CHECK(moved > 0);
    got += take(ends->first.get());
    CHECK(got.ends_with("x\nthe report\n"));
    CHECK(got.size() == 100'000 - waiting + 12);
    CHECK(writer.lost() == waiting);
  }

  TEST_CASE("what cannot be opened anew has a thread, in which a full pipe may hang") {
    ::signal(SIGPIPE, SIG_IGN);
    auto ends = make_pipe();
    REQUIRE(ends);
    REQUIRE(::fchmod(ends->second.get(), 0) == 0);
    const bool root = ::geteuid() == 0;
    if (root) REQUIRE(::seteuid(65534) == 0);
    io::Loop loop;
    FileThreads files(loop, {});
    int drained = 0, closed = 0;
    Writer writer(loop, files, ends->second.get(), "stdout",
                  {[&drained] { ++drained; }, [&closed] { ++closed; }});
    if (root) REQUIRE(::seteuid(0) == 0);
    const auto text = numbers(500'000);
    writer.write(text);  // returns, though nobody reads
    CHECK(writer.backlog() > Writer::low_water);
    std::string got;
    test::run_until(loop, [&] {
      got += take(ends->first.get());
      return got.size() >= text.size() && writer.idle();
    });
    CHECK((got == text));
    CHECK(drained == 1);
    CHECK(closed == 0);
    ends->first.reset();
    writer.write("to nobody\n");
    test::run_until(loop, [&] { return closed > 0; });
    writer.write("nor this\n");
    CHECK(writer.closed());
    CHECK(writer.lost() == 19);
    CHECK(closed == 1);
  }
}
