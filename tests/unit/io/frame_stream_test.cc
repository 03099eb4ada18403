#include "launcher/io/frame_stream.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>

#include "launcher/wire/messages.h"

using namespace trainrun;
using io::FrameStream;

namespace {

constexpr Duration time_limit = seconds(30);

// Two ends of one Link; the loop runs until `until` or the deadline.
struct Scene {
  Scene() {
    ::signal(SIGPIPE, SIG_IGN);
    auto pair = make_socket_pair();
    REQUIRE(pair);
    near_fd = std::move(pair->first);
    far_fd = std::move(pair->second);
  }
  void run(const std::function<bool()>& until) {
    io::Timer limit(loop);
    limit.arm(io::Loop::now() + time_limit, [this] { loop.stop(); });
    done = [this, until] {
      if (until()) loop.stop();
    };
    done();
    loop.run();
    loop.context().restart();
    done = nullptr;
  }
  FrameStream::Handlers collecting() {
    return {[this](const wire::Frame& frame) {
              frames.emplace_back(frame.payload);
              if (done) done();
            },
            [this](std::string why) {
              ++closed;
              reason = std::move(why);
              if (done) done();
            }};
  }

  io::Loop loop;
  Fd near_fd, far_fd;
  std::vector<std::string> frames;
  int closed = 0;
  std::string reason;
  std::function<void()> done;
};

}  // namespace

TEST_SUITE("frame_stream") {
  TEST_CASE("many frames and large ones arrive whole and in order, through slow buffers") {
    Scene scene;
    FrameStream reader(scene.loop, std::move(scene.far_fd), Fd(), scene.collecting());
    FrameStream writer(scene.loop, std::move(scene.near_fd), Fd(), {});
    for (std::uint32_t i = 0; i < 2000; ++i) writer.send(wire::Note{std::to_string(i)});
    const std::string large(wire::frame_limit - 16, 'x');
    writer.send(wire::Note{large});
    writer.send(wire::Note{"last"});
    CHECK(writer.queued() > large.size() / 2);  // the socket took some at once
    scene.run([&] { return scene.frames.size() == 2002; });
    REQUIRE(scene.frames.size() == 2002);
    for (std::size_t i = 0; i < 2000; ++i) {
      const auto note = wire::from_frame<wire::Note>({wire::Note::type, scene.frames[i]});
      REQUIRE(note);
      REQUIRE(note->text == std::to_string(i));
    }
    CHECK(wire::from_frame<wire::Note>({wire::Note::type, scene.frames[2000]})->text.size() == large.size());
    CHECK(writer.queued() == 0);
  }

  TEST_CASE("few frames wait for the loop's turn and go together, many begin to go at once") {
    Scene scene;
    FrameStream stream(scene.loop, std::move(scene.near_fd), Fd(), scene.collecting());
    const auto arrived = [&] {
      int bytes = 0;
      REQUIRE(::ioctl(scene.far_fd.get(), FIONREAD, &bytes) == 0);
      return bytes;
    };
    stream.send(wire::Note{"one"});
    CHECK(arrived() == 0);
    const std::string kilobyte(1024, 'x');
    for (int i = 0; i < 8; ++i) stream.send(wire::Note{kilobyte});
    CHECK(arrived() > 4096);
    CHECK(stream.queued() < 8 * 1024 - 4096);
  }

  TEST_CASE("the peer's end is reported once, after its frames") {
    Scene scene;
    FrameStream stream(scene.loop, std::move(scene.near_fd), Fd(), scene.collecting());
    REQUIRE(write_all(scene.far_fd.get(), wire::to_frame(wire::Note{"bye"}) + "\0\0"));
    scene.far_fd.reset();
    scene.run([&] { return scene.closed > 0; });
    CHECK(scene.frames.size() == 1);
    CHECK(scene.closed == 1);
    CHECK(scene.reason == "the connection was closed");
    CHECK(stream.closed());
    stream.send(wire::Note{"into nowhere"});
    CHECK(stream.queued() == 0);
  }

  TEST_CASE("a peer that goes while we write still has its last words heard") {
    Scene scene;
    FrameStream stream(scene.loop, std::move(scene.near_fd), Fd(), scene.collecting());
    // Written by the loop before it reads: the write fails first.
    REQUIRE(write_all(scene.far_fd.get(), wire::to_frame(wire::Stopped{3, true})));
    scene.far_fd.reset();
    stream.send(wire::Ping{1});
    scene.run([&] { return scene.closed > 0; });
    REQUIRE(scene.frames.size() == 1);
    CHECK(wire::from_frame<wire::Stopped>({wire::Stopped::type, scene.frames[0]})->leftovers == 3);
    CHECK(scene.closed == 1);
  }

  TEST_CASE("garbage ends the stream") {
    for (const std::string& garbage :
         {std::string("SSH-2.0-x\r\n"), std::string(5, '\0'), std::string(64, '\xff')}) {
      Scene scene;
      FrameStream stream(scene.loop, std::move(scene.near_fd), Fd(), scene.collecting());
      REQUIRE(write_all(scene.far_fd.get(), garbage));
      scene.run([&] { return scene.closed > 0; });
      CHECK(scene.frames.empty());
      CHECK(scene.reason == "the peer does not speak our protocol");
    }
  }

  TEST_CASE("a stream may be destroyed by its own frame handler, and says nothing more") {
    Scene scene;
    std::optional<FrameStream> stream;
    int heard = 0;
    // Captures more than fits into a std::function, so that its early destruction would be seen.
    const std::string big(200, 'x');
    stream.emplace(scene.loop, std::move(scene.near_fd), Fd(),
                   FrameStream::Handlers{[&, big](const wire::Frame&) {
                                           ++heard;
                                           stream.reset();
                                           CHECK(big.size() == 200);
                                           scene.loop.stop();
                                         },
                                         [&](const std::string&) { ++scene.closed; }});
    const auto frame = wire::to_frame(wire::Note{"x"});
    REQUIRE(write_all(scene.far_fd.get(), frame + frame + frame));
    scene.run([] { return false; });
    CHECK(heard == 1);
    CHECK(scene.closed == 0);
  }

  TEST_CASE("flush_and_close writes what is queued, and gives up on a peer that does not read") {
    Scene scene;
    {
      FrameStream stream(scene.loop, std::move(scene.near_fd), Fd(), scene.collecting());
      stream.send(wire::Note{"last"});
      stream.flush_and_close(time_limit);
      CHECK(stream.closed());
    }
    char buffer[64];
    CHECK(::recv(scene.far_fd.get(), buffer, sizeof buffer, MSG_DONTWAIT) ==
          static_cast<ssize_t>(wire::to_frame(wire::Note{"last"}).size()));
    CHECK(::recv(scene.far_fd.get(), buffer, sizeof buffer, MSG_DONTWAIT) == 0);
    Scene stalled;
    FrameStream stream(stalled.loop, std::move(stalled.near_fd), Fd(), stalled.collecting());
    stream.send(wire::Note{std::string(4u << 20, 'x')});
    stream.flush_and_close(milliseconds(1));
    CHECK(stream.closed());
    CHECK(stalled.closed == 0);
  }

  TEST_CASE("two descriptors serve as well as one") {
    Scene scene;
    auto to = make_pipe(), from = make_pipe();
    REQUIRE(to);
    REQUIRE(from);
    FrameStream near(scene.loop, std::move(from->first), std::move(to->second), scene.collecting());
    FrameStream* echo = nullptr;
    FrameStream far(
        scene.loop, std::move(to->first), std::move(from->second),
        {[&](const wire::Frame& frame) { echo->send(*wire::from_frame<wire::Note>(frame)); }, nullptr});
    echo = &far;
    near.send(wire::Note{"there and back"});
    scene.run([&] { return !scene.frames.empty(); });
    CHECK(scene.frames.size() == 1);
  }
}
