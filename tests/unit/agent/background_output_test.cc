// What a worker leaves behind in its pipes when it ends.
#include "agent_scene.h"

using namespace trainrun;

TEST_SUITE("background output") {
  TEST_CASE("a worker that left something which prints without end is finished, however slow its reader is") {
    AgentScene scene([](Opening& opening) { opening.job.credit = 4096; });
    scene.start_shell(1, "yes & exit 0");
    scene.until_said("exited 1");
    // Less than it prints, so that its pipe is never empty.
    io::Timer reader(scene.loop);
    std::function<void()> read = [&] {
      scene.link->send(wire::Credit{8192});
      reader.arm(io::Loop::now() + milliseconds(20), read);
    };
    read();
    scene.until_said("finished 1");
    CHECK(scene.output[1].size() > 4096);
  }

  TEST_CASE("what was written in time is not lost, however long the reader takes") {
    constexpr std::size_t written = 40'000;
    AgentScene scene([](Opening& opening) { opening.job.credit = 1000; });
    scene.start_shell(1, "(head -c 40000 /dev/zero; exec sleep 1000) & exit 0");
    scene.until_said("exited 1");
    scene.let_pass(milliseconds(1500));
    CHECK(scene.place("finished 1") == scene.said.size());
    CHECK(scene.output[1].size() == 1000);
    scene.link->send(wire::Credit{1u << 20});
    scene.until_said("finished 1");
    CHECK(scene.output[1].size() == written);
  }
}
