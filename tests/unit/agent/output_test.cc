#include "launcher/agent/output.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <string>

using namespace trainrun;
using agent::CreditPool;
using agent::OutputPump;

namespace {

// Everything that can happen without waiting has happened.
void settle(io::Loop& loop) {
  do loop.context().restart();
  while (loop.context().poll() > 0);
}

struct Source {
  Source() {
    auto pipe = make_pipe();
    REQUIRE(pipe);
    read = std::move(pipe->first);
    write = std::move(pipe->second);
    set_nonblocking(write.get(), true);
  }
  std::shared_ptr<OutputPump> start(io::Loop& loop, CreditPool& credit) {
    return OutputPump::start(
        loop, credit, std::move(read),
        {[this](std::string_view bytes) { got += bytes, largest = std::max(largest, bytes.size()); },
         [this] { ++ended; }});
  }
  Fd read, write;
  std::string got;
  std::size_t largest = 0;
  int ended = 0;
};

}  // namespace

TEST_SUITE("output pump") {
  TEST_CASE("nothing is read without credit, and never more than it") {
    io::Loop loop;
    CreditPool credit;
    Source source;
    const auto pump = source.start(loop, credit);
    REQUIRE(write_all(source.write.get(), "0123456789"));
    settle(loop);
    CHECK(source.got.empty());
    CHECK(pump->marked_is_through());
    pump->mark();
    REQUIRE(write_all(source.write.get(), "later"));
    CHECK_FALSE(pump->marked_is_through());
    credit.add(4);
    settle(loop);
    CHECK(source.got == "0123");
    CHECK_FALSE(pump->marked_is_through());
    credit.add(6);
    settle(loop);
    CHECK(source.got == "0123456789");
    CHECK(pump->marked_is_through());
    credit.add(100);
    settle(loop);
    CHECK(source.got == "0123456789later");
    pump->mark();
    CHECK(pump->marked_is_through());
    CHECK(source.ended == 0);
    source.write.reset();
    settle(loop);
    CHECK(source.ended == 1);
  }

  TEST_CASE("no byte is lost or moved, whatever the steps of credit") {
    io::Loop loop;
    CreditPool credit;
    Source source;
    const auto pump = source.start(loop, credit);
    std::string text;
    for (int i = 0; i < 40'000; ++i) text += std::to_string(i) + ",";
    std::size_t written = 0;
    for (std::uint64_t step = 1; source.got.size() < text.size() && step < 100'000; ++step) {
      if (written < text.size()) {
        const auto n = ::write(source.write.get(), text.data() + written, text.size() - written);
        if (n > 0) written += static_cast<std::size_t>(n);
      }
      credit.add(step % 977);
      settle(loop);
    }
    source.write.reset();
    credit.add(1);
    settle(loop);
    CHECK((source.got == text));  // not printed: it is long
    CHECK(source.ended == 1);
  }

  TEST_CASE("who waits for credit is served in turn, one read each") {
    io::Loop loop;
    CreditPool credit;
    std::array<Source, 3> sources;
    std::vector<std::shared_ptr<OutputPump>> pumps;
    for (auto& source : sources) {
      ::fcntl(source.write.get(), F_SETPIPE_SZ, 1 << 20);
      REQUIRE(write_all(source.write.get(), std::string(300'000, 'x')));
      pumps.push_back(source.start(loop, credit));
    }
    settle(loop);
    for (int round = 1; round <= 4; ++round) {
      for (int i = 0; i < 3; ++i) {
        credit.add(64u << 10);
        settle(loop);
      }
      for (const auto& source : sources) CHECK(source.got.size() == static_cast<std::size_t>(round) << 16);
    }
    for (const auto& source : sources) CHECK(source.largest <= 64u << 10);
  }

  TEST_CASE("a pump that was stopped or is gone says nothing more and keeps no place in the queue") {
    io::Loop loop;
    CreditPool credit;
    Source stopped, gone, live;
    auto first = stopped.start(loop, credit), second = gone.start(loop, credit);
    const auto third = live.start(loop, credit);
    for (auto* source : {&stopped, &gone, &live}) REQUIRE(write_all(source->write.get(), "abc"));
    settle(loop);
    first->mark();
    CHECK_FALSE(first->marked_is_through());
    first->stop();
    second.reset();
    credit.add(100);
    settle(loop);
    CHECK(stopped.got.empty());
    CHECK(gone.got.empty());
    CHECK(live.got == "abc");
    CHECK(stopped.ended == 0);
    CHECK(first->marked_is_through());
  }
}
