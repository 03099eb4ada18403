// Ranks as processes, against a rendezvous server in this one.
#include "tests/unit/comm/job.h"

using namespace trainrun;

TEST_CASE("every operation on every type gives the expected values on 1 to 4 ranks") {
  for (const std::string backend : {"shm", "gloo"})
    for (std::uint32_t size = 1; size <= 4; ++size) {
      Job job(size, backend, "ops");
      const auto on_host = [&](std::uint32_t rank) {
        return backend == "shm" ? fmt::format("{} {}", rank, size)
                                : fmt::format("{} {}", rank % 2, std::min(size - rank / 2 * 2, 2U));
      };
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        CHECK(job.all(rank) == fmt::format("ok {} {} local {} over {}\n", rank, size, on_host(rank),
                                           size == 1 ? "local" : backend));
        CHECK(job.exit_code(rank) == 0);
      }
    }
}

TEST_CASE("when a rank is killed every survivor's running operation fails and names it") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(4, backend, "loop");
    for (std::uint32_t rank = 0; rank < 4; ++rank) job.printed(rank, "running");
    job.signal(2, SIGKILL);
    for (const std::uint32_t rank : {0, 1, 3}) {
      CHECK_MESSAGE(job.all(rank).find("failed PeerLost culprit 2 host " + host_of(2, backend) + " ") !=
                        std::string::npos,
                    job.all(rank));
      CHECK(job.exit_code(rank) == 3);
    }
  }
}

TEST_CASE("survivors repeat what the launcher knows about the death") {
  for (const std::string backend : {"shm", "gloo"}) {
    const std::string host = backend == "shm" ? "gpu1" : "gpu2";
    Job job(3, backend, "loop", {"gpu1", "gpu1", host});
    for (std::uint32_t rank = 0; rank < 3; ++rank) job.printed(rank, "running");
    // The launcher sees the signal at about the time at which the connection breaks; its word counts.
    job.server.member_lost(2, host, "was killed by SIGKILL");
    job.signal(2, SIGKILL);
    for (const std::uint32_t rank : {0, 1}) {
      const auto said = job.all(rank);
      CHECK(said.find("failed PeerLost culprit 2 host " + host + " missing - how was killed by SIGKILL") !=
            std::string::npos);
      CHECK(said.find("rank 2 on " + host + " was lost: was killed by SIGKILL") != std::string::npos);
    }
  }
}

TEST_CASE("when a rank stops answering the others time out and name it") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(3, backend, "loop", {}, "2");
    for (std::uint32_t rank = 0; rank < 3; ++rank) job.printed(rank, "running");
    job.signal(1, SIGSTOP);
    for (const std::uint32_t rank : {0, 2})
      CHECK_MESSAGE(job.all(rank).find("failed Timeout culprit 1 host host0 missing 1 ") != std::string::npos,
                    job.all(rank));
  }
}

TEST_CASE("a rank that waits for others that never come names all of them, and they hear of it") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(3, backend, "late", {}, "1");
    job.printed(0, "running");
    const auto before = std::chrono::steady_clock::now();
    CHECK(job.all(0).find("failed Timeout culprit -1 host - missing 1 2 ") != std::string::npos);
    // A quarter of a second after its time, and what the end of a process takes.
    CHECK(std::chrono::steady_clock::now() - before < milliseconds(2500));
    job.release();
    for (const std::uint32_t rank : {1, 2})
      CHECK(job.all(rank).find("failed Timeout culprit -1 host - missing 1 2 ") != std::string::npos);
  }
}

TEST_CASE("ranks that call different things are all told both") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(3, backend, "mismatch");
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      const auto said = job.all(rank);
      CHECK(said.find("failed Mismatch") != std::string::npos);
      CHECK(said.find("rank 1 called allreduce(sum of 1000 f32) as operation 1") != std::string::npos);
      CHECK(said.find("2000 f32") != std::string::npos);
      CHECK(job.exit_code(rank) == 3);
    }
  }
}

TEST_CASE("memory that was demanded for ranks of several hosts is refused in words") {
  Job job(2, "shm", "loop", {"gpu1", "gpu2"});
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto said = job.all(rank);
    CHECK_MESSAGE(said.find("failed Unsupported") == 0, said);
    CHECK(said.find("TRAINRUN_COMM_BACKEND=shm, but the ranks are not all on one host") != std::string::npos);
    CHECK(job.exit_code(rank) == 3);
  }
}

TEST_CASE("a forked child that ends in the ordinary way takes nothing from its parent's world") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(3, backend, "fork");
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      CHECK(job.all(rank) == fmt::format("ok {} 3\n", rank));
      CHECK(job.exit_code(rank) == 0);
    }
  }
}

TEST_CASE("a rank that loses its world by an exception is no victim of those that wait for it") {
  for (const std::string backend : {"shm", "gloo"})
    for (const bool launcher_knows : {true, false}) {
      Job job(3, backend, "unwind", {host_of(0, backend), host_of(1, backend), host_of(2, backend)});
      job.printed(0, "unwound");
      // What the launcher says counts, though it comes later; else the end of the process does.
      if (launcher_knows)
        job.server.member_lost(0, "host0", "exited with code 3");
      else
        job.release();
      const std::string expected =
          launcher_knows ? "failed PeerLost culprit 0 host host0 missing - how exited with code 3"
                         : "failed Aborted culprit 0 host host0 missing - how has left the world";
      for (const std::uint32_t rank : {1, 2})
        CHECK_MESSAGE(job.all(rank).find(expected) != std::string::npos, job.all(rank));
    }
}

TEST_CASE("of one that stops before it connects nobody is blamed who waits for it") {
  // In hier it has a place in two meshes. Others may be connected by its listening alone, and wait in the
  // first operation then.
  for (const std::string backend : {"hier", "gloo"}) {
    Job job(4, backend, "ops", {}, "4", "comm.connect=stop", "4");
    for (const std::uint32_t rank : {0, 1, 2}) {
      const auto said = job.all(rank);
      CHECK_MESSAGE(said.find("failed Timeout ") != std::string::npos, said);
      CHECK_MESSAGE(said.find("did not end within 4.0 s") != std::string::npos, said);
      // A rank to which one has no connection may wait for it itself.
      const bool named = said.find("culprit 3 host host1 missing 3 ") != std::string::npos,
                 nobody = said.find("culprit -1 host - missing - ") != std::string::npos;
      CHECK_MESSAGE((named || nobody), said);
    }
  }
}

TEST_CASE("whose time passes first blames who is not in the operation, not who came to it later") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(3, backend, "skew");
    for (const std::uint32_t rank : {0, 1}) {
      const auto said = job.all(rank);
      CHECK_MESSAGE(said.find("failed Timeout culprit 2 host " + host_of(2, backend) + " missing 2 ") !=
                        std::string::npos,
                    said);
      CHECK_MESSAGE(said.find("barrier as operation 1: barrier as operation 1") == std::string::npos, said);
    }
  }
}

TEST_CASE("to finalize while another thread is in an operation fails as that does, and blocks nobody") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(2, backend, "finalize", {}, "1");
    CHECK(job.printed(0, "barrier").find("barrier Timeout") != std::string::npos);
    CHECK(job.printed(0, "finalize").find("finalize ") != std::string::npos);
  }
}

TEST_CASE("a rank that finalizes while others are in an operation disagrees with them, and nobody waits") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(3, backend, "too_few", {}, "1h");
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      const auto said = job.all(rank);
      CHECK_MESSAGE(said.find("failed Mismatch") != std::string::npos, said);
      CHECK_MESSAGE(said.find("rank 0 called finalize as operation 1") != std::string::npos, said);
      CHECK(job.exit_code(rank) == 3);
    }
  }
}

TEST_CASE("ranks may finalize, or free their world, long after the first one that finalizes") {
  for (const std::string backend : {"shm", "gloo"})
    for (const std::string way : {"ends_late", "frees_late"}) {
      Job job(3, backend, way, {}, "1h");
      CHECK(job.is_quiet(0, milliseconds(1500)));
      job.release();
      for (std::uint32_t rank = 0; rank < 3; ++rank) {
        CHECK(job.all(rank) == (rank == 0 || way == "ends_late" ? "ok\n" : ""));
        CHECK(job.exit_code(rank) == 0);
      }
    }
}

TEST_CASE("a world ends while another thread is in an operation, without waiting for it") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(2, backend, "drop", {}, "1h");
    CHECK(job.all(0) == "dropped\n");
    CHECK(job.exit_code(0) == 0);
  }
}

TEST_CASE("a child that outlives a dead rank does not keep its connections") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(2, backend, "helper");
    for (std::uint32_t rank = 0; rank < 2; ++rank) job.printed(rank, "running");
    job.signal(1, SIGKILL);
    CHECK_MESSAGE(job.all(0).find("failed PeerLost culprit 1 ") != std::string::npos, job.all(0));
  }
}

TEST_CASE("a program that a rank starts inherits nothing of the library's") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(3, backend, "inherit");
    for (std::uint32_t rank = 0; rank < 3; ++rank) CHECK(job.all(rank).empty());
  }
}

TEST_CASE("the library's threads take no signal of the program's") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(2, backend, "signals");
    for (std::uint32_t rank = 0; rank < 2; ++rank) CHECK(job.all(rank) == "open 0\n");
  }
}

TEST_CASE("a handler that the program has set for SIGPIPE stays when the world ends") {
  Job job(2, "shm", "sigpipe");
  for (std::uint32_t rank = 0; rank < 2; ++rank) CHECK(job.all(rank) == "handler mine\n");
}

TEST_CASE("time for which a rank stands still is no time of its operation") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(2, backend, "late", {}, "4");
    for (std::uint32_t rank = 0; rank < 2; ++rank) job.printed(rank, "running");
    job.signal(0, SIGSTOP);
    auto clock = job.server.client();
    CHECK_FALSE(clock.wait({"never put"}, seconds(6)));
    job.signal(0, SIGCONT);
    job.release();
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      CHECK_MESSAGE(job.exit_code(rank) == 0, job.all(rank));
    }
  }
}

TEST_CASE("groups of some of the ranks work beside the world and each other, and any rank sends to any") {
  for (const std::string backend : {"shm", "gloo", "auto"})
    for (const std::uint32_t size : {2, 5, 7}) {
      Job job(size, backend, "groups");
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        CHECK(job.all(rank) == fmt::format("ok {} {}\n", rank, size));
        CHECK(job.exit_code(rank) == 0);
      }
    }
}

TEST_CASE("the death of a group's member is one of the world: every rank names it") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(4, backend, "group_loop");
    for (std::uint32_t rank = 0; rank < 4; ++rank) job.printed(rank, "running");
    job.signal(2, SIGKILL);
    for (const std::uint32_t rank : {0, 1, 3})
      CHECK_MESSAGE(job.all(rank).find("failed PeerLost culprit 2 host " + host_of(2, backend) + " ") !=
                        std::string::npos,
                    job.all(rank));
  }
}

TEST_CASE("a mismatch in a group is told to its members in both words, and ends the world for all") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(4, backend, "group_mismatch");
    const std::string words =
                          "rank 0 called allreduce(max of 100000 f32) as operation 1, rank 2 called "
                          "allreduce(max of 7 f32)",
                      reversed = "rank 2 called allreduce(max of 7 f32) as operation 1, rank 0 called";
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const auto said = job.all(rank);
      CHECK_MESSAGE(said.find(rank % 2 == 0 ? "failed Mismatch" : "failed Aborted") != std::string::npos,
                    said);
      CHECK_MESSAGE((said.find(words) != std::string::npos || said.find(reversed) != std::string::npos),
                    said);
    }
  }
}

TEST_CASE("who does not come to a group, or does not send, is named, and nobody who has no part in it") {
  for (const std::string backend : {"shm", "gloo"})
    for (const char* mode : {"group_late", "send_late"}) {
      Job job(4, backend, mode, {}, "1");
      CHECK_MESSAGE(job.all(0).find("failed Timeout culprit 2 host " + host_of(2, backend) + " missing 2 ") !=
                        std::string::npos,
                    job.all(0));
      job.release();
    }
}

TEST_CASE("who waits for its first message to be received hears of the time that has passed elsewhere") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(4, backend, "send_elsewhere", {}, "1h");
    for (const std::uint32_t rank : {0, 3}) {
      const auto said = job.all(rank);
      CHECK_MESSAGE(said.find("failed Timeout culprit 2 host " + host_of(2, backend) + " missing 2 ") == 0,
                    said);
      CHECK_MESSAGE(
          said.find("making a group of ranks 2-3 did not end within 1.0 s: rank 2 on ") != std::string::npos,
          said);
    }
    job.release();
  }
}

TEST_CASE("ranks that wait in different groups hear where each waits, and nobody is blamed") {
  for (const std::string backend : {"shm", "gloo"})
    for (const char* mode : {"group_crossed", "group_lists"}) {
      Job job(3, backend, mode, {}, "1");
      for (std::uint32_t rank = 0; rank < 3; ++rank) {
        const auto said = job.all(rank);
        CHECK_MESSAGE(said.find("failed Timeout") == 0, said);
        CHECK_MESSAGE(said.find("culprit -1 host - missing - ") != std::string::npos, said);
        const bool lists = std::string_view(mode) == "group_lists";
        const auto* const where = lists ? "in creation of a group among ranks 0-2"
                                        : "in allreduce among ranks 0-2 number 1 of another group";
        CHECK_MESSAGE(said.find(where) != std::string::npos, said);
      }
    }
}

TEST_CASE(
    "who waits to receive, or to connect for it, is said to wait there by those who need it elsewhere") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(4, backend, "both_receive", {}, "2");
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const auto said = job.all(rank);
      CHECK_MESSAGE(said.find("failed Timeout") == 0, said);
      if (said.find("how barrier") == std::string::npos) continue;  // one of the two was the first
      CHECK_MESSAGE(said.find("culprit -1 host - missing - ") != std::string::npos, said);
      CHECK_MESSAGE(said.find("rank 0 on host0 waits in the first receive from rank 1") != std::string::npos,
                    said);
      CHECK_MESSAGE(said.find("rank 1 on " + host_of(1, backend) +
                              " waits in receive from rank 0 number 2") != std::string::npos,
                    said);
    }
  }
}

TEST_CASE("ranks that wait for each other in groups of different ranks disagree, and do not wait for ever") {
  Job job(3, "shm", "group_lists", {}, "1h");
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto said = job.all(rank);
    CHECK_MESSAGE(said.find(rank < 2 ? "failed Mismatch" : "failed Aborted culprit -1 ") == 0, said);
    CHECK_MESSAGE(
        said.find("rank 0 makes a group of ranks 0-1, rank 1 makes a group of ranks 0-2: each waits "
                  "for the other") != std::string::npos,
        said);
  }
}

TEST_CASE("who waits in vain hears which group the others make meanwhile") {
  Job job(3, "shm", "group_forgotten", {}, "8s");
  REQUIRE(job.printed(0, "waits").find("waits") != std::string::npos);
  CHECK(job.is_quiet(0, seconds(2)));  // its time passes first
  job.release();
  const auto said = job.all(0);
  CHECK_MESSAGE(
      said.find("barrier as operation 1 did not end within 8.0 s: rank 0 on host0 waits in barrier number 1; "
                "rank 1 on "
                "host0 and rank 2 on host0 wait in creation of a group among ranks 0-2") != std::string::npos,
      said);
}

TEST_CASE("ranks of which each waits for the next one's group disagree as well") {
  Job job(3, "shm", "group_ring", {}, "1h");
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto said = job.all(rank);
    CHECK_MESSAGE(said.find("failed Mismatch") == 0, said);
    CHECK_MESSAGE(
        said.find("rank 0 makes a group of ranks 0-1, rank 1 makes a group of ranks 1-2, rank 2 makes a "
                  "group of ranks 0,2: each waits for the next") != std::string::npos,
        said);
  }
}

TEST_CASE("counts of an allgatherv that differ are said") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(2, backend, "counts_mismatch");
    CHECK_MESSAGE(job.all(0).find("rank 0 gave 4, 4") != std::string::npos, job.all(0));
    CHECK_MESSAGE(job.all(1).find("rank 1 gave 3, 5") != std::string::npos, job.all(1));
  }
}

TEST_CASE("a rank that receives another number of elements than the other sends is told to have received") {
  for (const std::string backend : {"shm", "gloo"}) {
    Job job(2, backend, "send_mismatch");
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const auto said = job.all(rank);
      CHECK_MESSAGE(said.find("rank 0 called send(8 f32 from rank 0)") != std::string::npos, said);
      CHECK_MESSAGE(said.find("rank 1 called receive(9 f32 from rank 0)") != std::string::npos, said);
      CHECK_MESSAGE(said.find("failed Mismatch") != std::string::npos, said);  // the barrier after it
    }
  }
}
