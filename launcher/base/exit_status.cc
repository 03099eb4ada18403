#include "launcher/base/exit_status.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "launcher/base/error.h"
#include "launcher/base/exit_code.h"
#include "launcher/base/signal_set.h"

namespace trainrun {

std::string to_string(SpawnStage stage) {
  switch (stage) {
    case SpawnStage::none:
      return "none";
    case SpawnStage::fork:
      return "fork";
    case SpawnStage::session:
      return "session";
    case SpawnStage::files:
      return "files";
    case SpawnStage::directory:
      return "directory";
    case SpawnStage::affinity:
      return "affinity";
    case SpawnStage::exec:
      return "exec";
    case SpawnStage::pmix:
      return "pmix";
  }
  return "none";
}

ExitStatus ExitStatus::from_wait(int raw) {
  if (WIFSIGNALED(raw)) return killed(WTERMSIG(raw), WCOREDUMP(raw));
  return exited(WEXITSTATUS(raw));
}

bool ExitStatus::cancelled() const {
  return kind == Kind::not_started && stage == SpawnStage::none && number == ECANCELED;
}

int ExitStatus::signal() const {
  if (kind == Kind::killed) return number;
  constexpr int none = exit_code_of_signal(0);
  return kind == Kind::exited && number > none && number < none + SignalSet::most ? number - none : 0;
}

int ExitStatus::exit_code() const {
  switch (kind) {
    case Kind::exited:
      return number;
    case Kind::killed:
      return exit_code_of_signal(number);
    case Kind::not_started:
      // Without a process or a descriptor to spare nothing is wrong with the program.
      if (stage == SpawnStage::fork || stage == SpawnStage::files) return to_int(ExitCode::try_again);
      return to_int(number == ENOENT && stage == SpawnStage::exec ? ExitCode::not_found
                                                                  : ExitCode::not_executable);
    case Kind::lost:
      return to_int(ExitCode::unreachable);
    case Kind::aborted:
      return (number & 0xFF) != 0 ? number & 0xFF : 1;
    case Kind::deserted:
      return 1;
  }
  return to_int(ExitCode::internal);
}

std::string ExitStatus::describe() const {
  switch (kind) {
    case Kind::exited:
      return number == 0 ? "finished" : fmt::format("exited with code {}", number);
    case Kind::killed:
      return fmt::format("was killed by {}{}", signal_name(number), core_dumped ? " (core dumped)" : "");
    case Kind::not_started:
      if (stage == SpawnStage::pmix) return "could not be started: its host has no PMIx to offer";
      return fmt::format("could not be started ({}): {}", to_string(stage), errno_text(number));
    case Kind::lost:
      return reason.empty() ? "was lost" : "was lost: " + reason;
    case Kind::aborted:
      return fmt::format("called MPI_Abort with code {}", number);
    case Kind::deserted:
      return "exited with code 0 " + reason;
  }
  return {};
}

std::string signal_name(int signal) {
  if (const char* name = ::sigabbrev_np(signal)) return std::string("SIG") + name;
  return fmt::format("signal {}", signal);
}

}  // namespace trainrun
