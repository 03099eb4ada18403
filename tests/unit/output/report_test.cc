#include "launcher/output/report.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <csignal>

#include "tests/unit/output/failed_job.h"

using namespace trainrun;
namespace cause = trainrun::core::cause;
using core::Outcome;

TEST_SUITE("report") {
  TEST_CASE("success is silent") { CHECK(text({}).empty()); }

  TEST_CASE("an exit code comes with the rank, the time, the last words and the others") {
    auto outcome = failed(ExitStatus::exited(3));
    outcome.others.terminated = 2;
    outcome.others.killed = 1;
    outcome.cause->error = milliseconds(7);
    CHECK(text(outcome, {"Traceback", "ValueError: x"}, job_of_two(), "14:03:22.118") ==
          "trainrun: rank 3 on gpu2 exited with code 3, 3.0 s after the start\n" + first +
              "  at 14:03:22.118 (±7 ms)\n"
              "  last words  Traceback\n"
              "              ValueError: x\n"
              "  then        2 ranks ended after SIGTERM and 1 rank needed SIGKILL\n"
              "  try         to see this rank alone: --only-rank 3");
  }

  TEST_CASE("who had printed an exception when SIGTERM came is no victim of it") {
    auto outcome = failed(ExitStatus::exited(1));
    outcome.others.raised = 6;
    outcome.others.terminated = 1;
    CHECK(
        text(outcome).find("  then        1 rank ended after SIGTERM and 6 ranks raised an exception too") !=
        std::string::npos);
  }

  TEST_CASE("what MPI ranks exchanged by is the cause, and no rank") {
    Outcome outcome;
    outcome.kind = Outcome::Kind::exchange_lost;
    outcome.why = cause::ExchangeLost{"the helper for PMIx on gpu1 was killed by SIGKILL"};
    outcome.after = seconds(3);
    outcome.others.failed = 2;
    CHECK(
        text(outcome).starts_with("trainrun: the helper for PMIx on gpu1 was killed by SIGKILL, 3.0 s after "
                                  "the start; 2 ranks failed too"));
    CHECK(core::exit_code_of(outcome) == 70);
  }

  TEST_CASE("what is reported is not said again by the last words") {
    auto outcome = failed(ExitStatus::exited(3));
    outcome.why = cause::WorldBroken{"barrier did not end within 5.0 s: rank 1 did not take part", {Rank{1}}};
    const std::string line = "trainrun.Timeout: barrier did not end within 5.0 s: rank 1 did not take part";
    CHECK(text(outcome, {line}).find("last words") == std::string::npos);
    CHECK(text(outcome, {line, "bye"}).find("\n  last words  bye\n") != std::string::npos);
  }

  TEST_CASE("whom the ranks had named before is told besides the first that failed") {
    auto outcome = failed(ExitStatus::exited(3));
    outcome.why = cause::WorldBroken{
        "barrier as operation 2 did not end within 5.0 s: rank 1 did not take part", {Rank{1}}};
    CHECK(text(outcome).find(
              "\n  reported    barrier as operation 2 did not end within 5.0 s: rank 1 did not take "
              "part\n") != std::string::npos);
    CHECK(
        text(outcome).ends_with("\n  try         look at the reported rank first; a --hang-timeout "
                                "shorter than that time-out shows what each does then"));
  }

  TEST_CASE("a host that was lost before, and ignored, is told besides the rank that failed then") {
    auto outcome = failed(ExitStatus::exited(9));
    outcome.also_lost = {HostIndex{1}};
    CHECK(text(outcome).find("\n  lost before host gpu2\n") != std::string::npos);
  }

  TEST_CASE("what lets a stopped rank go on is said where a job hangs by it") {
    Outcome outcome;
    outcome.kind = Outcome::Kind::hung;
    outcome.why = cause::Hung{seconds(60), {core::RankRef{}}};
    CHECK(text(outcome).ends_with("kill -CONT lets a process go on"));
    outcome.why = cause::Hung{seconds(60)};
    CHECK(text(outcome).find("kill -CONT") == std::string::npos);
  }

  TEST_CASE("that the ranks disagreed is told, and that no rank is to be looked at first") {
    auto outcome = failed(ExitStatus::exited(3));
    outcome.why = cause::WorldBroken{"rank 0 called barrier, rank 1 called broadcast"};
    CHECK(text(outcome).find("\n  reported    rank 0 called barrier, rank 1 called broadcast\n") !=
          std::string::npos);
    CHECK(text(outcome).find("reported rank") == std::string::npos);
    outcome.why =
        cause::WorldBroken{"rank 0 called barrier as operation 3, rank 1 called broadcast as operation 3"};
    CHECK(text(outcome).find("\n  try         let all ranks call the same operations") != std::string::npos);
  }

  TEST_CASE("a kill for memory shows the kernel's evidence") {
    auto outcome = failed(ExitStatus::killed(SIGKILL, false));
    outcome.cause->out_of_memory = "kernel: Killed process 4242 (train)";
    CHECK(text(outcome) ==
          "trainrun: rank 3 on gpu2 was killed by the kernel: out of memory, 3.0 s after the start\n" +
              first +
              "\n  evidence    kernel: Killed process 4242 (train)\n"
              "  try         use fewer or smaller data-loader workers, a smaller batch, fewer ranks a host, "
              "or a "
              "larger memory limit");
  }

  TEST_CASE("a kill for memory that names nobody is no proof, and not told as one") {
    auto outcome = failed(ExitStatus::killed(SIGKILL, false));
    outcome.cause->out_of_memory = "the kernel has just killed 1 process in this cgroup for want of memory";
    CHECK(text(outcome).starts_with(
        "trainrun: rank 3 on gpu2 was killed by SIGKILL, perhaps by the kernel: out of memory, 3.0 s after"));
  }

  TEST_CASE("what the rank wrote down about its end comes before its last words, which do not repeat it") {
    const auto report = [](std::vector<std::string> words, output::RecordedError error) {
      return fmt::format("{}", fmt::join(output::report_lines(job_of_two(), failed(ExitStatus::exited(1)),
                                                              {std::move(words), {}, std::move(error)}),
                                         "\n"));
    };
    const std::string head = "trainrun: rank 3 on gpu2 exited with code 1, 3.0 s after the start\n" + first;
    CHECK(report({"ValueError: x"}, {{"ValueError: x", "more"}, "t.py:3, in f"}) ==
          head + "\n  exception   ValueError: x\n              more\n              at t.py:3, in f");
    CHECK(report({"bye"}, {{"ValueError: x"}}) == head + "\n  exception   ValueError: x\n  last words  bye");
    CHECK(report({}, {{"OutOfMemoryError: CUDA out of memory. Tried"}}).find("the GPU is out of memory") !=
          std::string::npos);
  }

  TEST_CASE("of a closed pipe the report tells what closes one") {
    for (const auto& status : {ExitStatus::killed(SIGPIPE, false), ExitStatus::exited(128 + SIGPIPE)})
      CHECK(text(failed(status))
                .find("try         it wrote to a pipe or socket whose other end was closed. A program of "
                      "MPICH") != std::string::npos);
  }

  TEST_CASE("a rank that said nothing on stderr is shown by the end of its stdout") {
    const auto report = [](std::vector<std::string> words) {
      output::ReportFacts facts{std::move(words), {}};
      facts.last_output = {"step 12", "config: no learning rate"};
      return fmt::format(
          "{}", fmt::join(output::report_lines(job_of_two(), failed(ExitStatus::exited(1)), facts), "\n"));
    };
    CHECK(report({}).find("\n  last output step 12\n              config: no learning rate\n") !=
          std::string::npos);
    CHECK(report({"bad"}).find("last output") == std::string::npos);
  }

  TEST_CASE("a shell or Python that ran what the kernel killed for memory says so as well") {
    auto outcome = failed(ExitStatus::exited(137));
    outcome.cause->out_of_memory = "the kernel has just killed 1 process";
    CHECK(text(outcome).starts_with(
        "trainrun: rank 3 on gpu2 exited with code 137 (as if something in it was killed by "
        "SIGKILL), perhaps by the kernel: out of memory, 3.0 s after the start\n" +
        first + "\n  evidence    the kernel has just killed 1 process\n"));
    CHECK(text(outcome).ends_with("or a larger memory limit"));
  }

  TEST_CASE("of this host it is the agent that was lost") {
    Outcome outcome;
    outcome.kind = Outcome::Kind::host_lost;
    outcome.why = cause::LinkLost{"process 77 (trainrun-agent) ended"};
    outcome.after = seconds(2);
    outcome.ranks = {Rank{0}, Rank{1}};
    outcome.others.lost = 2;
    const auto lines = output::report_lines(job_of_two(), outcome, {{}, {}, {}, true});
    REQUIRE(lines.size() == 2);
    CHECK(lines[0] ==
          "trainrun: this host's agent (ranks 0-1) was lost 2.0 s after the start: process 77 "
          "(trainrun-agent) ended; "
          "2 ranks ended with it");
    CHECK(lines[1].starts_with("  try         see who ended or stopped it"));
  }

  TEST_CASE("an agent that a signal told to end was not lost") {
    Outcome outcome;
    outcome.kind = Outcome::Kind::host_lost;
    outcome.host = HostIndex{1};
    outcome.why = cause::HostLeaves{{HostIndex{1}, "gpu2"}, "the agent got SIGTERM", false};
    outcome.after = seconds(2);
    outcome.ranks = {Rank{1}};
    CHECK(text(outcome).starts_with(
        "trainrun: the agent on gpu2 (rank 1) was told to end 2.0 s after the start: the agent got SIGTERM\n"
        "  try         see who sent the signal"));
    CHECK(output::report_lines(job_of_two(), outcome, {{}, {}, {}, true})[0].starts_with(
        "trainrun: this host's agent (rank 1) was told to end"));
  }

  TEST_CASE("a lost host is named with the reason and what was lost with it") {
    Outcome outcome;
    outcome.kind = Outcome::Kind::host_lost;
    outcome.host = HostIndex{1};
    outcome.why = cause::LinkLost{"no answer for 10 s"};
    outcome.after = seconds(90);
    outcome.ranks = {Rank{1}, Rank{2}, Rank{5}};
    outcome.others.lost = 3;
    CHECK(text(outcome).starts_with(
        "trainrun: host gpu2 (ranks 1-2,5) was lost 1m30s after the start: no answer for 10 s; 3 ranks lost "
        "with their host\n"));
    outcome.ranks = {Rank{1}};
    outcome.others.lost = 1;
    CHECK(text(outcome).starts_with(
        "trainrun: host gpu2 (rank 1) was lost 1m30s after the start: no answer for 10 s; 1 rank lost with "
        "its host\n"));
    outcome.ranks.clear();  // it had none yet
    CHECK(text(outcome).starts_with("trainrun: host gpu2 was lost"));
    outcome.also_lost = {HostIndex{0}};
    CHECK(text(outcome).find("\n  also lost   gpu1\n") != std::string::npos);
  }

  TEST_CASE("why there is no restart names the flag that was given") {
    auto job = job_of_two();
    auto outcome = failed(ExitStatus::exited(1));
    outcome.out_of_restarts = true;
    job.elastic.limit = {2, std::chrono::hours(24 * 365 * 10)};
    CHECK(text(outcome, {}, job).ends_with("none left: 2 in the whole job (--max-restarts)"));
    job.elastic.limit.count = 0;
    CHECK(text(outcome, {}, job).ends_with("none allowed (--max-restarts 0)"));
    job.elastic.limit = {2, seconds(60)};
    CHECK(text(outcome, {}, job).ends_with("none left: 2 in 1m00s (--reset-limit)"));
  }

  TEST_CASE("many hosts with one error are one line") {
    auto job = job_of_two();
    Outcome outcome;
    outcome.kind = Outcome::Kind::hosts_failed;
    job.hosts.hosts.clear();
    for (std::uint32_t i = 0; i < 500; ++i) {
      job.hosts.hosts.push_back(Host{fmt::format("h{}", i)});
      outcome.host_errors.emplace_back(HostIndex{i},
                                       Error{Code::unreachable, fmt::format("h{}: no route", i), {}});
    }
    const auto told = text(outcome, {}, job);
    CHECK(told.find("\n  500 hosts: no route (h0, h1, ") != std::string::npos);
    CHECK(told.size() < 400);
  }

  TEST_CASE("hosts that failed are all named, each with its advice") {
    Outcome outcome;
    outcome.kind = Outcome::Kind::hosts_failed;
    outcome.host_errors = {{HostIndex{0}, {Code::auth, "gpu1: no key was accepted", "ssh-add"}},
                           {HostIndex{1}, {Code::unreachable, "gpu2: no route", ""}}};
    CHECK(text(outcome) ==
          "trainrun: no host could be used; nothing was started\n"
          "  gpu1: no key was accepted\n"
          "      try: ssh-add\n"
          "  gpu2: no route");
  }

  TEST_CASE("hosts that failed alike share one advice") {
    Outcome outcome;
    outcome.kind = Outcome::Kind::hosts_failed;
    for (std::uint32_t i = 0; i < 2; ++i)
      outcome.host_errors.emplace_back(HostIndex{i},
                                       Error{Code::auth, fmt::format("gpu{}: no key", i + 1), "ssh-add"});
    CHECK(text(outcome) ==
          "trainrun: no host could be used; nothing was started\n"
          "  gpu1: no key\n"
          "  gpu2: no key\n"
          "      try: ssh-add");
  }

  TEST_CASE("others that failed by themselves are named, the first few of them") {
    auto outcome = failed(ExitStatus::killed(SIGKILL, false));
    outcome.others.failed = 6;
    core::Failure other{WorkerId{1}, Rank{0}, HostIndex{0}, 1, ExitStatus::aborted(1)};
    other.lost_peer = true;
    outcome.also_failed = {other};
    for (std::uint32_t rank = 1; rank < 6; ++rank)
      outcome.also_failed.push_back({WorkerId{rank}, Rank{rank}, HostIndex{1}, 1, ExitStatus::exited(1)});
    const auto lines = text(outcome);
    CHECK(lines.find("\n  then        6 ranks failed too\n"
                     "  also failed rank 0 on gpu1 called MPI_Abort with code 1, having lost a peer\n"
                     "              rank 1 on gpu2 exited with code 1\n"
                     "              rank 2 on gpu2 exited with code 1\n"
                     "              rank 3 on gpu2 exited with code 1, and 2 more ranks\n") !=
          std::string::npos);
  }

  TEST_CASE("who had finished is named, and is the reason where a rank lost a peer and nobody else failed") {
    auto outcome = failed(ExitStatus::exited(1));
    outcome.others.finished = 2;
    outcome.finished = {0, 3};
    CHECK(text(outcome).find("\n  then        ranks 0,3 had finished") != std::string::npos);
    CHECK(text(outcome).find("having lost a peer") == std::string::npos);
    outcome.cause->lost_peer = true;
    CHECK(text(outcome).find("exited with code 1, having lost a peer, ") != std::string::npos);
    CHECK(text(outcome).find("\n  try         see why ranks 0,3 ended with code 0 before the others") !=
          std::string::npos);
    outcome.finished.clear();
    CHECK(text(outcome).find("\n  then        2 ranks had finished") != std::string::npos);
  }

  TEST_CASE("who lost a peer while nobody else failed is no culprit: one may be stuck") {
    auto outcome = failed(ExitStatus::exited(1));
    JobSpec job;
    job.hosts.hosts = {{.name = "gpu1"}, {.name = "gpu2"}};
    job.programs.push_back({{"./train"}, 4, "/w"});
    CHECK(text(outcome, {}, job).find("in vain") == std::string::npos);
    outcome.cause->lost_peer = true;
    CHECK(text(outcome, {}, job).find("code 1, having lost a peer or waited for one in vain, ") !=
          std::string::npos);
    CHECK(text(outcome, {}, job)
              .find("\n  try         no other rank has failed: one may be stuck or stopped") !=
          std::string::npos);
    outcome.also_failed.push_back({WorkerId{1}, Rank{0}, HostIndex{1}, 1, ExitStatus::exited(1)});
    CHECK(text(outcome, {}, job).find("in vain") == std::string::npos);
  }

  TEST_CASE("the user's own endings are one line each") {
    Outcome outcome;
    outcome.after = seconds(3);
    outcome.others.terminated = 4;
    outcome.kind = Outcome::Kind::user_signal;
    outcome.signal = SIGINT;
    CHECK(text(outcome) == "trainrun: ended by SIGINT 3.0 s after the start; 4 ranks ended after SIGTERM");
    outcome.took = milliseconds(2500);
    CHECK(text(outcome) ==
          "trainrun: ended by SIGINT 3.0 s after the start, 2.5 s after the signal; 4 ranks ended after "
          "SIGTERM");
    outcome.by_ctl = true;
    outcome.others.left = 1;
    CHECK(text(outcome) ==
          "trainrun: ended by ctl end 3.0 s after the start, 2.5 s after the signal; 4 ranks ended after "
          "SIGTERM "
          "and 1 rank "
          "left for its agent to end");
    outcome.others.left = 0;
    outcome.kind = Outcome::Kind::output_closed;
    CHECK(
        text(outcome) ==
        "trainrun: nobody reads the output any more (as with | head): the job was ended; 4 ranks ended after "
        "SIGTERM");
    outcome.kind = Outcome::Kind::timed_out;
    auto job = job_of_two();
    job.timeout = seconds(120);
    CHECK(text(outcome, {}, job) ==
          "trainrun: the time limit passed (--timeout 2m00s); 4 ranks ended after SIGTERM\n"
          "  try         give --timeout more, or leave it out");
    outcome.kind = Outcome::Kind::port_refused;
    outcome.why = cause::PortRefused{{Code::try_again, "gpu1: cannot reserve a port", "widen --port-range"}};
    CHECK(text(outcome) == "trainrun: gpu1: cannot reserve a port\n  try         widen --port-range");
  }
}
