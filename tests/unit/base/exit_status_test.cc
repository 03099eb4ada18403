#include "launcher/base/exit_status.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace trainrun {
namespace {

int raw_status_of(void (*body)()) {
  const auto pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(99);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return status;
}

TEST_CASE("exit 9 and a kill by signal 9 are not the same end") {
  const auto exited = ExitStatus::from_wait(raw_status_of([] { ::_exit(9); }));
  const auto killed = ExitStatus::from_wait(raw_status_of([] { ::raise(SIGKILL); }));
  CHECK(exited == ExitStatus::exited(9));
  CHECK(killed == ExitStatus::killed(SIGKILL, false));
  CHECK(exited.exit_code() == 9);
  CHECK(killed.exit_code() == 137);
  CHECK_FALSE(exited.success());
  CHECK_FALSE(killed.success());
}

TEST_CASE("each kind of end has its exit code and its words") {
  struct Row {
    ExitStatus status;
    int code;
    const char* words;
  };
  const Row table[] = {
      {ExitStatus::exited(0), 0, "finished"},
      {ExitStatus::exited(3), 3, "exited with code 3"},
      {ExitStatus::killed(SIGSEGV, true), 139, "was killed by SIGSEGV (core dumped)"},
      {ExitStatus::killed(SIGTERM, false), 143, "was killed by SIGTERM"},
      {ExitStatus::not_started(SpawnStage::exec, ENOENT), 127,
       "could not be started (exec): No such file or directory"},
      {ExitStatus::not_started(SpawnStage::exec, EACCES), 126,
       "could not be started (exec): Permission denied"},
      {ExitStatus::not_started(SpawnStage::directory, ENOENT), 126,
       "could not be started (directory): No such file or directory"},
      {ExitStatus::not_started(SpawnStage::files, EMFILE), 75,
       "could not be started (files): Too many open files"},
      {ExitStatus::not_started(SpawnStage::fork, EAGAIN), 75,
       "could not be started (fork): Resource temporarily unavailable"},
      {ExitStatus::lost("no answer for 3 s"), 69, "was lost: no answer for 3 s"},
      {ExitStatus::lost(""), 69, "was lost"},
      {ExitStatus::aborted(7), 7, "called MPI_Abort with code 7"},
      {ExitStatus::aborted(256), 1, "called MPI_Abort with code 256"},
      {ExitStatus::aborted(-1), 255, "called MPI_Abort with code -1"},
      {ExitStatus::deserted("within MPI"), 1, "exited with code 0 within MPI"},
  };
  for (const auto& row : table) {
    CHECK(row.status.exit_code() == row.code);
    CHECK(row.status.describe() == row.words);
    CHECK(row.status.success() == (row.code == 0));
  }
}

TEST_CASE("signals have their names") {
  CHECK(signal_name(SIGTERM) == "SIGTERM");
  CHECK(signal_name(SIGKILL) == "SIGKILL");
  CHECK(signal_name(40) == "signal 40");
}

}  // namespace
}  // namespace trainrun
