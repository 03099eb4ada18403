#include "launcher/output/failure_advice.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>

#include "tests/unit/output/failed_job.h"

using namespace trainrun;

TEST_SUITE("failure advice") {
  TEST_CASE("each way of dying has its own words and advice") {
    struct Row {
      ExitStatus status;
      std::string_view how, advice;
      std::vector<std::string> words;
    };
    const Row rows[] = {
        {ExitStatus::killed(SIGSEGV, false), "was killed by SIGSEGV", "ulimit -c unlimited", {}},
        {ExitStatus::killed(SIGABRT, true), "was killed by SIGABRT (core dumped)", "", {}},
        {ExitStatus::killed(SIGKILL, false),
         "was killed by SIGKILL, not sent by trainrun",
         "see who sent it: the kernel's OOM killer (`dmesg` on gpu2), a limit",
         {}},
        {ExitStatus::killed(SIGABRT, false),
         "was killed by SIGABRT: threads still ran when the program ended",
         "torch.distributed.destroy_process_group()",
         {"terminate called without an active exception"}},
        {ExitStatus::killed(SIGTERM, false), "was killed by SIGTERM,", "", {}},
        {ExitStatus::exited(137),
         "exited with code 137 (as if something in it was killed by SIGKILL),",
         "--only-rank 3",
         {}},
        {ExitStatus::exited(255), "exited with code 255,", "--only-rank 3", {}},
        {ExitStatus::exited(15),
         "exited with code 15,",
         "trainrun does not offer MPI_Comm_spawn",
         {"Abort(1) on node 0 (rank 0 in comm 0): Fatal error in internal_Comm_spawn: Other MPI error"}},
        {ExitStatus::not_started(SpawnStage::pmix, EACCES),
         "could not be started: its host has no PMIx to offer",
         "--pmix-lib",
         {}},
        {ExitStatus::exited(247),
         "exited with code 247 (as if something in it was killed by SIGKILL),",
         "--only-rank 3",
         {}},
        {ExitStatus::exited(241), "exited with code 241,", "--only-rank 3", {}},
        {ExitStatus::not_started(SpawnStage::exec, ENOENT),
         "could not be started (exec): No such file or directory",
         "the interpreter in the first line of a script, or the loader",
         {}},
        {ExitStatus::not_started(SpawnStage::directory, EACCES),
         "could not be started (directory): Permission denied",
         "",
         {}},
        {ExitStatus::not_started(SpawnStage::files, EMFILE),
         "could not be started (files): Too many open files",
         "ulimit -Hn",
         {}},
        {ExitStatus::not_started(SpawnStage::fork, EAGAIN),
         "could not be started (fork): Resource temporarily unavailable",
         "ulimit -u",
         {}},
        {ExitStatus::not_started(SpawnStage::fork, ENOMEM),
         "could not be started (fork): Cannot allocate memory",
         "free",
         {}},
        {ExitStatus::exited(127),
         "could not load a shared library (exit code 127)",
         "LD_LIBRARY_PATH",
         {"error while loading shared libraries: libx.so"}},
        {ExitStatus::exited(1),
         "exited with code 1: the GPU is out of memory",
         "smaller batch",
         {"torch: CUDA out of memory. Tried"}},
        {ExitStatus::exited(1),
         "exited with code 1",
         "a PyTorch script leaves RANK, WORLD_SIZE and MASTER_PORT as they are set",
         {"Address already in use"}},
        {ExitStatus::lost("no answer for 10 s"), "was lost: no answer for 10 s", "", {}},
        {ExitStatus::aborted(7), "called MPI_Abort with code 7,", "", {}},
        {ExitStatus::deserted(std::string(core::without_hvd_init)),
         "exited with code 0 without hvd.init,",
         "let every rank call hvd.init",
         {}},
        {ExitStatus::deserted("within MPI"), "exited with code 0 within MPI,", "--compat none", {}},
    };
    for (const auto& row : rows) {
      const auto report = text(failed(row.status), row.words);
      CAPTURE(report);
      CHECK(report.starts_with(fmt::format("trainrun: rank 3 on gpu2 {}", row.how)));
      CHECK(report.find(first) != std::string::npos);
      if (row.advice.empty()) {
        CHECK(report.find("  try ") == std::string::npos);
      } else {
        const auto advice = report.find("  try         ");
        REQUIRE(advice != std::string::npos);
        CHECK(report.find(row.advice, advice) != std::string::npos);
      }
    }
  }

  TEST_CASE("a port that was taken: one that was given, or one that the program chose") {
    auto job = job_of_two();
    const std::vector<std::string> words{
        "DistNetworkError: port: 29511, code: -98, name: EADDRINUSE, message: address already in use"};
    CHECK(text(failed(ExitStatus::exited(1)), words, job).find("as they are set") != std::string::npos);
    job.master_port = 29511;
    CHECK(text(failed(ExitStatus::exited(1)), words, job).find("leave --master-port out") !=
          std::string::npos);
  }

  TEST_CASE("a rank of Python gets the advice of Python") {
    auto job = job_of_two();
    job.programs.front().argv = {"train.py"};
    job.programs.front().found = {{"", "/w/train.py", ""}, {"", "/venv/bin/python3", "/w/train.py"}};
    const auto report = [&](const ExitStatus& status, std::vector<std::string> words, bool raised) {
      output::ReportFacts facts{std::move(words), {}, {}};
      facts.raised = raised;
      return fmt::format("{}", fmt::join(output::report_lines(job, failed(status), facts), "\n"));
    };
    CHECK(report(ExitStatus::exited(1), {"ValueError: x"}, false).find("--only-rank") != std::string::npos);
    CHECK(report(ExitStatus::exited(1), {"ValueError: x"}, true).find("  try ") == std::string::npos);
    CHECK(
        report(ExitStatus::exited(1), {"ModuleNotFoundError: No module named 'x'"}, true)
            .find("  try         it was run by /venv/bin/python3: install the module for that one on gpu2") !=
        std::string::npos);
    for (const auto* words : {"EOFError: EOF when reading a line", "bdb.BdbQuit"})
      CHECK(report(ExitStatus::exited(1), {words}, true)
                .find("  try         this rank has no stdin: --stdin 3") != std::string::npos);
    job.stdin_rank = 3;
    CHECK(report(ExitStatus::exited(1), {"bdb.BdbQuit"}, true).find("  try ") == std::string::npos);
    const auto segfault = ExitStatus::killed(SIGSEGV, false);
    CHECK(report(segfault, {}, false).find("  try         -x PYTHONFAULTHANDLER=1") != std::string::npos);
    CHECK(report(segfault, {"Fatal Python error: Segmentation fault"}, false).find("FAULTHANDLER") ==
          std::string::npos);
  }

  TEST_CASE("ranks that disagree are to call the same") {
    const auto hint = [](const std::string& words) {
      core::Failure cause;
      cause.status = ExitStatus::exited(1);
      return output::advise({}, cause, "gpu2", {words}, true).hint;
    };
    const std::string words = "rank 0 called barrier as operation 5, rank 1 called broadcast as operation 5";
    CHECK(hint("trainrun.Mismatch: " + words).starts_with("let all ranks call the same operations"));
    CHECK(hint("rank 0 called barrier as operation 5").empty());
    CHECK(hint("it called a friend and called again").empty());
    core::Failure uncaught;
    uncaught.status = ExitStatus::killed(SIGABRT, false);
    CHECK(output::advise({}, uncaught, "gpu2", {"  what():  " + words}, false)
              .hint.starts_with("let all ranks call the same operations"));
  }

  TEST_CASE("where to see more of a rank depends on where its output went, and whether it ran at all") {
    const auto hint = [](JobSpec job, int code) {
      const auto report = text(failed(ExitStatus::exited(code)), {}, job);
      const auto at = report.find("  try         ");
      return at == std::string::npos ? std::string{} : report.substr(at + 14);
    };
    auto job = job_of_two();
    CHECK(hint(job, 3) == "to see this rank alone: --only-rank 3");
    CHECK(hint(job, 126).empty());
    CHECK(hint(job, 127).empty());
    job.only_ranks = {3};
    CHECK(hint(job, 3).empty());
    job.output_directory = "/logs";
    CHECK(hint(job, 3) == "see /logs/latest/rank.3");
  }
}
