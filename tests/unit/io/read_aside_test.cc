#include "launcher/io/read_aside.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "launcher/base/fd.h"

using namespace trainrun;
using io::ReadAside;

TEST_SUITE("read aside") {
  TEST_CASE("a read that waits holds up no loop; what comes, and the end, are told there") {
    auto ends = make_pipe();
    REQUIRE(ends);
    io::Loop loop;
    io::Timer beat(loop), limit(loop);
    ReadAside reader;
    std::string got;
    bool ended = false;
    const std::function<void()> ask = [&] {
      CHECK(reader.start(loop, ends->first.get(), 3, std::nullopt, [&](const std::string& bytes, int error) {
        CHECK(error == 0);
        got += bytes;
        ended = bytes.empty();
        if (ended) return loop.stop();
        ask();
      }) == 0);
    };
    ask();
    beat.arm(io::Loop::now() + milliseconds(1), [&] {  // the loop turns while the read waits
      CHECK(write_all(ends->second.get(), "five5"));
      ends->second.reset();
    });
    limit.arm(io::Loop::now() + seconds(20), [&] { loop.stop(); });
    loop.run();
    CHECK(ended);
    CHECK(got == "five5");
  }

  TEST_CASE("a file is read where one says, and stands where it stood") {
    Fd file(::memfd_create("digits", MFD_CLOEXEC));
    REQUIRE(write_all(file.get(), "0123456789"));
    REQUIRE(::lseek(file.get(), 2, SEEK_SET) == 2);
    io::Loop loop;
    io::Timer limit(loop);
    limit.arm(io::Loop::now() + seconds(20), [&] { loop.stop(); });
    ReadAside reader;
    std::string got;
    CHECK(reader.start(loop, file.get(), 3, 5, [&](const std::string& bytes, int) {
      got = bytes;
      loop.stop();
    }) == 0);
    loop.run();
    CHECK(got == "567");
    CHECK(::lseek(file.get(), 0, SEEK_CUR) == 2);
  }

  TEST_CASE("an error is told as errno") {
    io::Loop loop;
    ReadAside reader;
    int told = 0;
    io::Timer limit(loop);
    limit.arm(io::Loop::now() + seconds(20), [&] { loop.stop(); });
    CHECK(reader.start(loop, -1, 3, std::nullopt, [&](const std::string&, int error) {
      told = error;
      loop.stop();
    }) == 0);
    loop.run();
    CHECK(told == EBADF);
  }

  TEST_CASE("who is gone is told nothing, and the read that waits disturbs nobody") {
    auto ends = make_pipe();
    REQUIRE(ends);
    const int shared = ends->first.release();  // stays open, as stdin does
    io::Loop loop;
    {
      ReadAside reader;
      CHECK(reader.start(loop, shared, 3, std::nullopt,
                         [](const std::string&, int) { FAIL("it was told"); }) == 0);
    }
    ends->second.reset();  // it returns, to nobody
    loop.run();
  }
}
