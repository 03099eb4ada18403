#include "agent_scene.h"

using namespace trainrun;

namespace {

// A rank that is a shell script, which speaks PMI-1 on its descriptor 20.
void start_rank(AgentScene& scene, std::uint32_t worker, const std::string& script, std::uint32_t ranks = 1,
                std::uint32_t generation = 1) {
  wire::Start order;
  order.worker = WorkerId{worker};
  order.generation = Generation{generation};
  order.argv = {"/bin/bash", "-c",
                "ask() { echo \"$1\" >&20; read answer <&20; echo \"$answer\"; }; " + script};
  order.directory = "/";
  order.pmi = true;
  order.place = {Rank{worker - 1}, ranks, ranks, 0, "(vector,(0,1,1))"};
  scene.link->send(order);
}

const std::string init = "ask 'cmd=init pmi_version=1 pmi_subversion=1'; ";
const std::string finalize = "ask cmd=finalize; ";

std::string said_in(AgentScene& scene, std::uint32_t worker) {
  scene.until_said("finished " + std::to_string(worker));
  return scene.output[worker];
}

}  // namespace

TEST_SUITE("pmi sockets") {
  TEST_CASE("a rank is answered on descriptor 20, and one that got no socket has none") {
    AgentScene scene;
    start_rank(scene, 1, init + "ask cmd=get_my_kvsname; " + finalize);
    scene.start_shell(2, "test ! -e /proc/$$/fd/20 && echo none");
    const auto heard = said_in(scene, 1);
    CHECK(
        heard.find(
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=my_kvsname rc=0 kvsname=scene") ==
        0);
    CHECK(heard.find(".g1\ncmd=finalize_ack rc=0\n") != std::string::npos);
    CHECK(said_in(scene, 2) == "none\n");
  }

  TEST_CASE("whether a rank ended within MPI is known with its end, also when it spoke just before") {
    AgentScene scene;
    start_rank(scene, 1, init);
    said_in(scene, 1);
    CHECK(scene.in_mpi[1]);
    for (std::uint32_t worker = 2; worker < 12; ++worker) {
      // It does not wait for the answer: its end and its last word come together.
      start_rank(scene, worker, init + "exec echo cmd=finalize >&20", 1, worker);
      said_in(scene, worker);
      CHECK_FALSE(scene.in_mpi[worker]);
    }
    start_rank(scene, 12, "echo plain", 1, 12);
    said_in(scene, 12);
    CHECK_FALSE(scene.in_mpi[12]);
  }

  TEST_CASE("MPI_Abort is told before the end, with its code") {
    AgentScene scene;
    start_rank(scene, 1, init + "echo cmd=abort exitcode=7 >&20; exit 7");
    said_in(scene, 1);
    CHECK(scene.place("aborted 1 with 7") < scene.place("exited 1"));
  }

  TEST_CASE("ranks of one host meet without the launcher") {
    AgentScene scene;
    start_rank(scene, 1, init + "ask cmd=barrier_in; " + finalize, 2);
    start_rank(scene, 2, init + "ask cmd=barrier_in; " + finalize, 2);
    CHECK(said_in(scene, 1).find("cmd=barrier_out rc=0\n") != std::string::npos);
    CHECK(said_in(scene, 2).find("cmd=barrier_out rc=0\n") != std::string::npos);
    CHECK(scene.place("message 30") == scene.said.size());
  }

  TEST_CASE(
      "a rank that waits for others hears that the generation has failed; of another it hears nothing") {
    AgentScene scene;
    start_rank(scene, 1, init + "ask cmd=barrier_in; read rest <&20 || echo end; exit 4", 2);
    scene.run([&] { return scene.output[1].find('\n') != std::string::npos; });
    scene.link->send(wire::GatherFailed{Generation{2}, "another"});
    scene.link->send(wire::GatherFailed{Generation{1}, "rank 1 is dead"});
    const auto heard = said_in(scene, 1);
    CHECK(heard.find("cmd=barrier_out rc=-1 msg=rank_1_is_dead\nend\n") != std::string::npos);
  }

  TEST_CASE("a newer generation takes the place of an older one") {
    AgentScene scene;
    // Its socket may be closed before it has asked.
    start_rank(scene, 1, "trap '' PIPE; " + init + "ask cmd=barrier_in; echo out; exit 4", 2);
    scene.run([&] { return scene.output[1].find('\n') != std::string::npos; });
    start_rank(scene, 3, init + "ask cmd=get_my_kvsname; " + finalize, 1, 2);
    CHECK(said_in(scene, 3).find(".g2\n") != std::string::npos);
    CHECK(said_in(scene, 1).find("out\n") != std::string::npos);  // its socket was closed
  }

  TEST_CASE("a rank that says what is no PMI is hung up on, and the user told") {
    AgentScene scene;
    start_rank(scene, 1, "echo hello >&20; cat <&20");
    said_in(scene, 1);
    scene.until_said("note rank 0 sent something on its PMI descriptor that is no PMI-1; it gets no answers");
  }
}
