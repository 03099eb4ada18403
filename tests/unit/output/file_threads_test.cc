#include "launcher/output/file_threads.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/output/turn.h"

using namespace trainrun;
using namespace trainrun::output;

TEST_SUITE("file threads") {
  TEST_CASE("a device that takes nothing holds up no other, and alone is given up") {
    auto stalled = make_pipe();  // a write to a full pipe hangs as one to a file system that stalls
    REQUIRE(stalled);
    char path[] = "/tmp/file_threads_test.XXXXXX";
    const Fd well(::mkstemp(path));
    ::unlink(path);
    REQUIRE(well);
    io::Loop loop;
    {
      std::vector<std::string> told;
      FileThreads files(loop, {[] {}, [&told](const std::string& name, Duration) { told.push_back(name); }},
                        milliseconds(20));
      const auto bad = files.add(std::move(stalled->second), "bad", {});
      const auto good = files.add(well.get(), "good", {});
      FileThreads::write(bad, std::string(1u << 20, 'x'));
      FileThreads::write(good, "through\n");
      test::run_until(loop, [&] { return ::lseek(well.get(), 0, SEEK_END) == 8; });
      test::run_until(loop, [&] { return !told.empty(); });
      CHECK(told == std::vector<std::string>{"bad"});
      CHECK_FALSE(files.idle());
      CHECK(files.backlog() > 0);
      const auto left = files.give_up();
      CHECK(left.name == "bad");
      CHECK(files.lost() == left.bytes);
      REQUIRE(files.losses().size() == 1);
      CHECK(files.losses()[0].name == "bad");
      CHECK(files.losses()[0].bytes == left.bytes);
      CHECK(files.idle());
      FileThreads::write(good, "again\n");
      test::run_until(loop, [&] { return files.idle(); });
      CHECK(::lseek(well.get(), 0, SEEK_END) == 14);
    }
    stalled->first.reset();  // the write that hung returns, to nobody
  }

  TEST_CASE("files of one device share a thread, and other work comes after what is queued beside it") {
    char path[] = "/tmp/file_threads_test.XXXXXX";
    const Fd one(::mkstemp(path));
    ::unlink(path);
    REQUIRE(one);
    io::Loop loop;
    FileThreads files(loop, {});
    const auto a = files.add(one.get(), "a", {});
    const auto b = files.add(one.get(), "b", {});
    CHECK(a.thread == b.thread);
    FileThreads::write(a, "before");
    off_t seen = 0;
    FileThreads::later(b, [&] {
      seen = ::lseek(one.get(), 0, SEEK_END);
      return std::string();
    });
    test::run_until(loop, [&] { return files.idle(); });
    CHECK(seen == 6);
  }
}
