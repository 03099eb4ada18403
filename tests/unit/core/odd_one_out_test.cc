#include "launcher/core/odd_one_out.h"

#include <doctest/doctest.h>

#include "launcher/core/notice.h"
#include "launcher/output/words.h"

using namespace trainrun;
using core::Look;
using core::odd_one_out;

namespace {

std::string sentence(const std::vector<Look>& looks) {
  const auto odd = odd_one_out(looks);
  return odd ? output::words(core::notice::RankDiffers{*odd}).front() : std::string{};
}

Look look(std::uint32_t rank) {
  Look it;
  it.rank = Rank{rank};
  it.silent = seconds(5);
  return it;
}

}  // namespace

TEST_SUITE("odd one out") {
  TEST_CASE("ranks that are alike have none, nor have two that differ") {
    CHECK_FALSE(odd_one_out({}));
    CHECK_FALSE(odd_one_out({look(0)}));
    CHECK_FALSE(odd_one_out({look(0), look(1), look(2)}));
    auto busy = look(1);
    busy.busy = true;
    CHECK_FALSE(odd_one_out({look(0), busy}));
    auto also = look(2);
    also.busy = true;
    CHECK_FALSE(odd_one_out({look(0), busy, also, look(3)}));
  }

  TEST_CASE("one that sleeps while the others spin, and the other way round") {
    auto spins = look(0), spins_too = look(2);
    spins.busy = spins_too.busy = true;
    CHECK(
        sentence({spins, look(1), spins_too}) ==
        "rank 1 is doing something different from the others: it sleeps (last output 5.0 s ago), and each of "
        "ranks 0 and 2 is running");
    CHECK(sentence({look(1), spins, look(2)})
              .starts_with("rank 0 is doing something different from the others: it "
                           "is running"));
  }

  TEST_CASE("one that is in another collective") {
    auto a = look(0), b = look(1), c = look(2);
    a.operation = b.operation = "in 'all_reduce' number 5";
    c.operation = "after 'all_reduce' number 4";
    CHECK(sentence({a, b, c}).find("it is after 'all_reduce' number 4") != std::string::npos);
  }

  TEST_CASE("one that is in another function of MPI, while all spin") {
    std::vector<Look> looks{look(0), look(1), look(2)};
    const char* inside[] = {"opal_progress", "poll_dispatch", "epoll_wait"};
    for (std::size_t i = 0; i < looks.size(); ++i) {
      looks[i].busy = true;
      looks[i].frame = {i == 0 ? "MPI_Recv" : "MPI_Barrier", i == 2 ? inside[0] : inside[1], true};
    }
    CHECK(sentence(looks).find("rank 0 is doing something different from the others: it is in MPI_Recv") ==
          0);
    CHECK(sentence(looks).ends_with("each of ranks 1 and 2 is in MPI_Barrier"));
    looks[0].frame.mpi.clear();
    CHECK(sentence(looks).find("it is in no MPI function") != std::string::npos);
    looks[1].frame = {};  // of one nothing is known
    CHECK_FALSE(odd_one_out(looks));
  }

  TEST_CASE("what spinning ranks do inside tells nothing") {
    std::vector<Look> looks{look(0), look(1), look(2)};
    for (auto& it : looks) it.busy = true, it.frame = {"", "opal_progress", true};
    looks[1].frame.name = "epoll_wait";
    CHECK_FALSE(odd_one_out(looks));
  }

  TEST_CASE("one that sleeps in another place, by its frame or by the kernel's name") {
    std::vector<Look> looks{look(0), look(1), look(2), look(3)};
    for (auto& it : looks) it.waits_in = "futex_wait_queue";
    looks[3].waits_in = "futex_do_wait";  // of another kernel
    CHECK_FALSE(odd_one_out(looks));
    looks[2].waits_in = "hrtimer_nanosleep";
    CHECK(sentence(looks) ==
          "rank 2 is doing something different from the others: it waits in hrtimer_nanosleep (last output "
          "5.0 s ago), "
          "and each of ranks 0, 1 and 3 waits in a lock (futex)");
    for (auto& it : looks) it.frame = {"", "wait (threading.py:320)", true};
    looks[2].frame.name = "<module> (a.py:4)";
    CHECK(sentence(looks).find(
              "rank 2 is doing something different from the others: it is in <module> (a.py:4)") == 0);
    looks[0].waits_in.clear();
    for (auto& it : looks) it.frame = {};
    CHECK_FALSE(odd_one_out(looks));
  }

  TEST_CASE("one that fell silent long before, or never spoke") {
    auto quiet = look(1);
    quiet.silent = seconds(60);
    CHECK(sentence({look(0), quiet, look(2)}).find("it prints nothing since 1m00s") != std::string::npos);
    quiet.silent.reset();
    CHECK(sentence({look(0), quiet, look(2)}).find("it has printed nothing (no output)") !=
          std::string::npos);
    quiet.silent = seconds(7);
    CHECK_FALSE(odd_one_out({look(0), quiet, look(2)}));
    auto mute = look(0);
    mute.silent.reset();
    CHECK_FALSE(sentence({mute, quiet, look(2)}).empty());
    auto mute_too = look(2);
    mute_too.silent.reset();
    CHECK_FALSE(odd_one_out({mute, look(1), mute_too}));
  }
}
