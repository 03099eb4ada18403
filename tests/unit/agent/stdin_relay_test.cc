#include "launcher/agent/stdin_relay.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <string>
#include <vector>

using namespace trainrun;
using agent::StdinRelay;

namespace {

struct Scene {
  Scene() {
    ::signal(SIGPIPE, SIG_IGN);
    auto pipe = make_pipe();
    REQUIRE(pipe);
    read = std::move(pipe->first);
    set_nonblocking(read.get(), true);
    relay = StdinRelay::start(loop, std::move(pipe->second),
                              [this](std::uint32_t bytes) { wanted.push_back(bytes); });
  }
  void settle() {
    do loop.context().restart();
    while (loop.context().poll() > 0);
  }
  // What the worker reads in steps of `size`, with the relay running in between.
  std::string take(std::size_t size) {
    std::string all, buffer(size, '\0');
    for (ssize_t n; (n = ::read(read.get(), buffer.data(), size)) > 0; settle())
      all.append(buffer, 0, static_cast<std::size_t>(n));
    return all;
  }
  io::Loop loop;
  Fd read;
  std::vector<std::uint32_t> wanted;
  std::shared_ptr<StdinRelay> relay;
};

}  // namespace

TEST_SUITE("stdin_relay") {
  TEST_CASE("what the worker has read is known, before and after the end, and when it closes its stdin") {
    Scene scene;
    CHECK(scene.relay->taken() == 0);
    scene.relay->give("hello, world", false);
    CHECK(scene.relay->taken() == 0);
    char some[5];
    REQUIRE(::read(scene.read.get(), some, sizeof some) == 5);
    CHECK(scene.relay->taken() == 5);
    SUBCASE("the worker ends") {
      scene.relay->close();
      scene.read.reset();
      CHECK(scene.relay->taken() == 5);
    }
    SUBCASE("it reads on after the end of all") {
      scene.relay->give({}, true);
      CHECK(scene.relay->taken() == 5);
      REQUIRE(::read(scene.read.get(), some, 2) == 2);
      CHECK(scene.relay->taken() == 7);
      scene.read.reset();
      CHECK(scene.relay->taken() == 7);
    }
    SUBCASE("it closes its stdin and lives on") {
      scene.read.reset();
      scene.relay->give("more", false);
      CHECK(scene.wanted.back() == 0);
      CHECK(scene.relay->taken() == 5);
    }
  }

  TEST_CASE("it asks for a window, and again for what was taken") {
    Scene scene;
    CHECK(scene.wanted == std::vector<std::uint32_t>{StdinRelay::window});
    scene.relay->give("hello", false);
    CHECK(scene.wanted.back() == 5);
    CHECK(scene.take(16) == "hello");
  }

  TEST_CASE("a slow worker gets every byte, and the window is whole again afterwards") {
    Scene scene;
    std::string text;
    std::uint64_t window = 0, given = 0;
    std::string got;
    for (int round = 0; round < 5; ++round) {
      for (const auto bytes : scene.wanted) window += bytes;
      scene.wanted.clear();
      const std::string piece(window, static_cast<char>('a' + round));
      given += piece.size();
      window = 0;
      scene.relay->give(piece, false);
      scene.settle();
      if (round % 2 == 1) got += scene.take(4096);
    }
    got += scene.take(4096);
    for (const auto bytes : scene.wanted) window += bytes;
    CHECK(got.size() == given);
    CHECK(window == StdinRelay::window);  // nothing of it leaked away
  }

  TEST_CASE("the end closes the pipe after the last byte") {
    Scene scene;
    scene.relay->give("last", true);
    CHECK(scene.take(16) == "last");
    char byte;
    CHECK(::read(scene.read.get(), &byte, 1) == 0);
  }

  TEST_CASE("a worker that closes its stdin says so, so that others do not wait for it") {
    Scene scene;
    scene.read.reset();
    scene.relay->give("unread", false);
    CHECK(scene.wanted.back() == 0);
    const auto before = scene.wanted.size();
    scene.relay->give("more", true);
    CHECK(scene.wanted.size() == before);
  }
}
