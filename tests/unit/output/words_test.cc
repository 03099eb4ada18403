#include "launcher/output/words.h"

#include <doctest/doctest.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

using namespace trainrun;
using namespace trainrun::core;

namespace {

const HostRef gpu1{HostIndex{1}, "gpu1"};
const HostRef gpu2{HostIndex{2}, "gpu2"};
const RankRef rank3{Rank{3}, gpu1, WorkerId{7}, 4711};

using Lines = std::vector<std::string>;
Lines lines(const Notice& notice) { return output::words(notice); }
std::string why(const Cause& cause) { return output::words(cause); }

template <std::size_t... Is>
std::vector<Notice> one_of_each(std::index_sequence<Is...>) {
  return {Notice(std::in_place_index<Is>)...};
}

}  // namespace

TEST_SUITE("output.words") {
  TEST_CASE("every notice has words, also one that says nothing yet") {
    for (const auto& notice :
         one_of_each(std::make_index_sequence<std::variant_size_v<Notice::Alternatives>>())) {
      INFO(print(notice));
      if (std::holds_alternative<notice::HostsFailed>(notice)) continue;  // a line a failure
      const auto said = lines(notice);
      REQUIRE(said.size() == 1);
      CHECK_FALSE(said[0].empty());
    }
  }

  TEST_CASE("a failed rank says how it ended, and its last words where its code says little") {
    CHECK(why(cause::RankFailed{rank3, ExitStatus::killed(SIGSEGV, false), "unheard"}) ==
          "rank 3 on gpu1 was killed by SIGSEGV");
    CHECK(why(cause::RankFailed{rank3, ExitStatus::exited(1), "ValueError: loss is NaN"}) ==
          "rank 3 on gpu1 exited with code 1 (ValueError: loss is NaN)");
    CHECK(why(cause::RankFailed{rank3, ExitStatus::exited(1), "a\x1b"}) ==
          "rank 3 on gpu1 exited with code 1 (a\\x1b)");
    const auto cut = why(cause::RankFailed{rank3, ExitStatus::exited(1), std::string(99, 'a') + "ää"});
    CHECK(cut == "rank 3 on gpu1 exited with code 1 (" + std::string(99, 'a') + "...)");
  }

  TEST_CASE("members learn how the culprit ended, and of other ends what concerns them") {
    const auto told = [](Cause cause, bool job_ends) {
      return output::reason_for_members({Generation{2}, std::nullopt, std::move(cause), job_ends});
    };
    const cause::RankFailed failed{rank3, ExitStatus::exited(4)};
    CHECK(told(failed, true) == "exited with code 4");
    CHECK(told(failed, false) == "rank 3 on gpu1 exited with code 4");
    CHECK(told(cause::EndAsked{SIGTERM, true}, true) == "the launcher was asked to end the job by ctl end");
    CHECK(told(cause::TimeLimit{seconds(60)}, true) == "the job's time limit passed");
    CHECK(told(cause::OutputClosed{}, true) == "nobody reads the job's output any more");
    CHECK(told(cause::RanksLost{gpu1, {Rank{2}, Rank{3}}, cause::LinkLost{"no answer for 10.0 s"}}, true) ==
          "host gpu1 (ranks 2-3) was lost: no answer for 10.0 s");
  }

  TEST_CASE("a generation is told with what changed it, who keeps the state, and what it took") {
    CHECK(lines(notice::GenerationFormed{Generation{1}, 8, 1}) == Lines{"generation 1: 8 ranks on 1 host"});
    CHECK(lines(notice::GenerationFormed{Generation{3}, 6, 3, cause::HostLost{gpu2, "no answer for 3.0 s"}, 4,
                                         milliseconds(1200)}) ==
          Lines{"generation 3: 6 ranks on 3 hosts; state kept by 4 survivors; after 1.2 s"});  // the restart
                                                                                               // told it
    CHECK(lines(notice::GenerationFormed{Generation{3}, 6, 3, cause::HostsChanged{{"a"}}, 4}) ==
          Lines{"generation 3: 6 ranks on 3 hosts; a left; state kept by 4 survivors"});
    CHECK(why(cause::HostsChanged{{"a", "b"}, {"c"}, {{gpu1, 1}}}) ==
          "a and b left, c came, gpu1 has 1 slot now");
    CHECK(why(cause::HostsChanged{}) == "free slots are filled");
  }

  TEST_CASE("ranks that are waited for are told with what they said last, and that they have ended") {
    const RankRef one{.rank = Rank{1}, .host = gpu1}, two{.rank = Rank{2}, .host = gpu2};
    CHECK(
        lines(
            notice::RanksAbsent{Generation{1}, 3, {{one, "reading", false}, {two, "done", true}}, "init"}) ==
        Lines{
            "1 of 3 ranks wait in init; not there yet: rank 1 on gpu1 (last words: 'reading') and rank 2 on "
            "gpu2 (it has ended with code 0; last words: 'done')"});
  }

  TEST_CASE("of ranks of which none has come, those that run may be slow; those that have ended were alone") {
    const RankRef one{.rank = Rank{0}, .host = gpu1}, two{.rank = Rank{1}, .host = gpu2};
    notice::RanksAbsent it{Generation{1}, 2, {{one, "", false}, {two, "", false}}, "init"};
    CHECK(lines(it).front().starts_with(
        "2 ranks loaded PyTorch a while ago, and none has come to init yet: they may still be loading ("));
    CHECK(lines(it).front().find("try:") == std::string::npos);
    it.absent.front().ended = true;
    CHECK(lines(it).front().starts_with("2 ranks have loaded PyTorch, and none has called init: each may "));
  }

  TEST_CASE("a restart is told with what follows, and what is left of them") {
    notice::Restarting it{Generation{2}, cause::HostLost{gpu2, "gone"}, false, Follows::others_go_on, 2, 10,
                          seconds(3600)};
    CHECK(lines(it) == Lines{"gpu2 lost (gone); the others go on in the next generation (restart "
                             "2 of 10 in 1h00m)"});
    it.was_up = false;
    it.follows = Follows::all_start_anew;
    CHECK(lines(it) == Lines{"generation 2 was not up yet: gpu2 lost (gone); restarting all ranks (restart 2 "
                             "of 10 in 1h00m)"});
    it.as_well = true;
    CHECK(
        lines(it) ==
        Lines{
            "generation 2 was not up yet: gpu2 lost (gone) as well; restarting all ranks (still restart 2)"});
  }

  TEST_CASE("hosts that are waited for are told by what they wait for") {
    using What = AwaitedHost::What;
    CHECK(lines(notice::WaitingForHosts{
              1, 4, {{gpu1, What::rests, seconds(4)}, {gpu2, What::dialled}}, seconds(60)}) ==
          Lines{"waiting for hosts: 1 slot of the 4 that the smallest world needs; dialling gpu2; gpu1 cools "
                "down "
                "for 4.0 s; giving up in 1m00s (--elastic-timeout)"});
    CHECK(lines(notice::WaitingForHosts{0, 2, {}, seconds(60)})[0].find("needs; giving up in") !=
          std::string::npos);
  }

  TEST_CASE("hosts that fail are told one by one, and many that fail alike in one line") {
    const auto failure = [](std::uint32_t i) {
      const auto name = "gpu" + std::to_string(i);
      return HostFailure{{HostIndex{i}, name}, {Code::unreachable, name + ": no route", "see the cable"}};
    };
    CHECK(lines(notice::HostsFailed{{failure(1), failure(2)}}) ==
          Lines{"gpu1: no route; trying again (try: see the cable)",
                "gpu2: no route; trying again (try: see the cable)"});
    CHECK(lines(notice::HostsFailed{{failure(1)}, false}) == Lines{"gpu1: no route"});
    CHECK(lines(notice::HostsFailed{{failure(1), failure(2), failure(3), failure(4)}}) ==
          Lines{"4 hosts: no route (gpu1, gpu2, gpu3 and gpu4); trying again (try: see the cable)"});
  }

  TEST_CASE("a lost host says whether it counts, and whether it matters") {
    CHECK(lines(notice::HostLost{gpu1, "gone"}) == Lines{"gpu1 lost (gone)"});
    CHECK(lines(notice::HostLost{gpu1, "gone", true, false}) == Lines{"gpu1 lost as well (gone)"});
    CHECK(lines(notice::HostLost{gpu1, "gone", false, false}) == Lines{"gpu1 lost (gone); it had no rank"});
    CHECK(lines(notice::HostLost{gpu1, "gone", false, false, {{Rank{3}, gpu1}}}) ==
          Lines{"gpu1 lost (gone); rank 3 on gpu1 had not joined yet"});
  }

  TEST_CASE("one that fails before it has joined: who goes on, and when another is started") {
    const cause::RankFailed failed{{Rank{3}, gpu1}, ExitStatus::exited(7)};
    const std::string who = "rank 3 on gpu1 exited with code 7 before it had joined";
    notice::NewcomerFailed it{failed, 3, Duration::zero()};
    CHECK(lines(it) == Lines{who + "; 3 ranks go on without it; starting it again"});
    it.again = seconds(4);
    CHECK(lines(it) == Lines{who + "; 3 ranks go on without it; starting it again in 4.0 s"});
    it.rests = true;  // told in the next line
    CHECK(lines(it) == Lines{who + "; 3 ranks go on without it"});
    it.ranks = 0;  // the next world is being formed
    CHECK(lines(it) == Lines{who});
    it.ranks = 1;
    it.again.reset();  // it has finished
    CHECK(lines(it) == Lines{who + "; 1 rank goes on without it"});
  }

  TEST_CASE("several that never came are they") {
    notice::NewcomerFailed it{
        cause::MembersMissing{
            {{Rank{1}, gpu1}, {Rank{2}, gpu2}}, Generation{3}, seconds(30), Limit::start_timeout},
        2, seconds(30)};
    const auto said = lines(it).front();
    CHECK(said.find("; 2 ranks go on without them; starting them again in 30.0 s") != std::string::npos);
  }

  TEST_CASE("who waits before the next start, and who is ended before it has joined") {
    CHECK(lines(notice::Gathering{.slots = 0, .wanted = 1, .wait = seconds(2)})[0].starts_with(
        "0 of 1 slot is available: waiting"));
    CHECK(lines(notice::Gathering{.slots = 1, .wanted = 2, .wait = seconds(2)})[0].starts_with(
        "1 of 2 slots are available: waiting"));
    CHECK(lines(notice::BackingOff{seconds(2)}) == Lines{"waiting 2.0 s before the next start"});
    CHECK(lines(notice::BackingOff{seconds(2), true}) ==
          Lines{"waiting 2.0 s before the next start; the others do not wait"});
    CHECK(lines(notice::NewcomersLeave{{{Rank{3}, gpu1}}}) ==
          Lines{"ending rank 3 on gpu1, which had not joined: no slot is left"});
    CHECK(lines(notice::NewcomersLeave{{{Rank{3}, gpu1}}, true}) ==
          Lines{"ending rank 3 on gpu1, which had not joined: other ranks have finished"});
  }

  TEST_CASE("ranks that were to join are ready, or are gone before they could") {
    notice::GenerationFormed it{Generation{3}, 4, 2, cause::RanksReady{{{Rank{3}, gpu1}}}};
    CHECK(lines(it) == Lines{"generation 3: 4 ranks on 2 hosts; rank 3 on gpu1 is ready"});
    it.cause = cause::RanksReady{};
    CHECK(lines(it) == Lines{"generation 3: 4 ranks on 2 hosts; a rank that was ready has ended"});
  }

  TEST_CASE("an end that takes its time says what is waited for") {
    notice::Ending it{cause::JobOver{}, 0, seconds(9)};
    CHECK(lines(it) == Lines{"the job ended; processes that are no ranks still run: SIGKILL in 9.0 s"});
    it.ranks = 1;
    it.unplaced = true;
    CHECK(lines(it) == Lines{"the job ended; ending 1 rank that had not joined: SIGKILL in 9.0 s"});
  }

  TEST_CASE("a hang names who is stopped, else the one that does something else than the others") {
    cause::Hung hung{.silence = seconds(30), .odd = cause::OddRank{rank3, "sleeps", "is running", 7}};
    CHECK(output::words(hung) ==
          "no sign of life from any rank for 30.0 s: rank 3 on gpu1 sleeps while each of the 7 others is "
          "running");
    hung.absent.push_back(rank3);
    CHECK(output::words(hung) ==
          "no sign of life from any rank for 30.0 s: rank 3 on gpu1 has not come to where the others wait");
    hung.stopped.push_back(rank3);
    CHECK(output::words(hung) == "no sign of life from any rank for 30.0 s: rank 3 on gpu1 is stopped");
    CHECK(output::words(cause::Hung{seconds(30)}) == "no sign of life from any rank for 30.0 s");
  }

  TEST_CASE("hints go with causes that somebody can do something about") {
    CHECK(output::hint(cause::PortRefused{{Code::try_again, "taken", "widen --port-range"}}) ==
          "widen --port-range");
    CHECK(output::hint(cause::MembersMissing{}).starts_with("give --start-timeout more"));
    CHECK(output::hint(cause::Hung{}).empty());
  }
}
