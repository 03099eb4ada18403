#include "launcher/transport/local.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "launcher/io/frame_stream.h"
#include "launcher/wire/messages.h"

using namespace trainrun;

namespace {

// Dials this host; gives the program that its agent runs, as /proc names it, once that has said Hello.
std::string program_of_agent() {
  io::Loop loop;
  const auto transport = transport::make_local_transport(loop);
  std::optional<io::FrameStream> link;
  std::string program;
  transport->dial(Host{}, seconds(30), [&](Result<transport::Dialled> dialled) {
    REQUIRE(dialled);
    link.emplace(
        loop, std::move(dialled->link), Fd(),
        io::FrameStream::Handlers{
            [&](const wire::Frame& frame) {
              const auto hello = wire::from_frame<wire::Hello>(frame);
              REQUIRE(hello);
              program =
                  std::filesystem::read_symlink("/proc/" + std::to_string(hello->pid) + "/exe").string();
              loop.stop();
            },
            [&](const std::string&) { loop.stop(); }});
  });
  io::Timer limit(loop);
  limit.arm(io::Loop::now() + seconds(30), [&] { loop.stop(); });
  loop.run();
  return program;
}

}  // namespace

TEST_SUITE("local transport") {
  TEST_CASE("a process with threads does not fork an agent: it executes one") {
    ::signal(SIGPIPE, SIG_IGN);
    auto ends = make_pipe();
    REQUIRE(ends);
    std::thread other([in = ends->first.get()] {
      char byte = 0;
      static_cast<void>(!::read(in, &byte, 1));
    });
    CHECK(program_of_agent().starts_with("/memfd:trainrun-agent"));
    ends->second.reset();
    other.join();
  }

  TEST_CASE("a watcher that has gone is no zombie when the next agent is started") {
    ::signal(SIGPIPE, SIG_IGN);
    program_of_agent();
    siginfo_t gone{};
    REQUIRE(::waitid(P_ALL, 0, &gone, WEXITED | WNOWAIT) == 0);
    program_of_agent();
    CHECK(::kill(gone.si_pid, 0) != 0);
  }
}
