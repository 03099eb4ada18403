#include "launcher/output/writer.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/base/fd.h"

using namespace trainrun;
using output::Writer;

namespace {

constexpr Duration patience = seconds(20);

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
  TEST_CASE("a stalled reader holds nothing up, and gets every byte in order when it reads on") {
    const auto text = numbers(1'000'000);  // 6.9 MB: more than a pipe or a socket takes
    for (const bool socket : {false, true}) {
      CAPTURE(socket);
      auto ends = socket ? make_socket_pair() : make_pipe();
      REQUIRE(ends);
      io::Loop loop;
      int drained = 0;
      Writer writer(loop, ends->second.get(), {[&drained] { ++drained; }, nullptr});
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
      limit.arm(io::Loop::now() + patience, [&] { loop.stop(); });
      read();
      loop.run();
      CHECK((got == text));
      CHECK(drained == 1);
      CHECK(writer.backlog() == 0);
    }
  }

  TEST_CASE("a file gets everything at once") {
    char path[] = "/tmp/writer_test.XXXXXX";
    const Fd file(::mkstemp(path));
    ::unlink(path);
    REQUIRE(file);
    io::Loop loop;
    Writer writer(loop, file.get(), {});
    const auto text = numbers(200'000);
    writer.write(text);
    CHECK(writer.backlog() == 0);
    std::string content(text.size() + 1, '\0');
    CHECK(::pread(file.get(), content.data(), content.size(), 0) == static_cast<ssize_t>(text.size()));
    content.pop_back();
    CHECK((content == text));
  }

  TEST_CASE("what a full disk cannot take is dropped, told once, and later lines begin on their own") {
    char path[] = "/tmp/writer_test.XXXXXX";
    const Fd file(::mkstemp(path));
    ::unlink(path);
    REQUIRE(file);
    const auto handler = ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit small{6, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    io::Loop loop;
    std::vector<int> told;
    bool closed = false;
    Writer writer(loop, file.get(),
                  {nullptr, [&closed] { closed = true; }, [&told](int error) { told.push_back(error); }});
    writer.write("one\ntwo\n");  // "one\ntw" is all there is room for
    writer.write("three\n");
    CHECK(told == std::vector{EFBIG});
    CHECK_FALSE(closed);
    CHECK(writer.backlog() == 0);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    ::signal(SIGXFSZ, handler);
    writer.write("four\n");
    char content[32]{};
    CHECK(::pread(file.get(), content, sizeof content - 1, 0) == 12);
    CHECK(std::string(content) == "one\ntw\nfour\n");
    CHECK(told.size() == 1);
  }

  TEST_CASE("a reader that is gone is reported once, and later writes are dropped") {
    ::signal(SIGPIPE, SIG_IGN);
    for (const bool socket : {false, true}) {
      CAPTURE(socket);
      auto ends = socket ? make_socket_pair() : make_pipe();
      REQUIRE(ends);
      io::Loop loop;
      int closed = 0;
      Writer writer(loop, ends->second.get(), {nullptr, [&closed] { ++closed; }});
      writer.write("a");
      CHECK_FALSE(writer.closed());
      ends->first.reset();
      writer.write("b");
      writer.write("c");
      CHECK(writer.closed());
      CHECK(closed == 1);
      CHECK(writer.backlog() == 0);
      writer.flush(patience);
    }
  }

  TEST_CASE("a reader that goes while much waits for it releases those who wait") {
    ::signal(SIGPIPE, SIG_IGN);
    auto ends = make_pipe();
    REQUIRE(ends);
    io::Loop loop;
    int drained = 0, closed = 0;
    Writer writer(loop, ends->second.get(), {[&drained] { ++drained; }, [&closed] { ++closed; }});
    writer.write(std::string(4u << 20, 'x'));
    io::Timer limit(loop);
    limit.arm(io::Loop::now(), [&] { ends->first.reset(); });
    loop.run();
    CHECK(closed == 1);
    CHECK(drained == 1);
  }

  TEST_CASE("flush waits for a reader, but not for ever") {
    auto ends = make_pipe();
    REQUIRE(ends);
    io::Loop loop;
    Writer writer(loop, ends->second.get(), {});
    const std::string text(100'000, 'x');
    writer.write(text);
    REQUIRE(writer.backlog() > 0);
    writer.flush(milliseconds(1));
    CHECK(writer.backlog() > 0);
    auto got = take(ends->first.get());
    writer.flush(patience);
    got += take(ends->first.get());
    CHECK((got == text));
  }
}
