#include "launcher/base/exit_status.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "launcher/base/error.h"

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
  }
  return "none";
}

ExitStatus ExitStatus::from_wait(int raw) {
  if (WIFSIGNALED(raw)) return killed(WTERMSIG(raw), WCOREDUMP(raw));
  return exited(WEXITSTATUS(raw));
}

int ExitStatus::exit_code() const {
  switch (kind) {
    case Kind::exited:
      return number;
    case Kind::killed:
      return 128 + number;
    case Kind::not_started:
      // Without a process or a descriptor to spare nothing is wrong with the program.
      if (stage == SpawnStage::fork || stage == SpawnStage::files) return 75;
      return number == ENOENT && stage == SpawnStage::exec ? 127 : 126;
    case Kind::lost:
      return 69;
  }
  return 70;
}

std::string ExitStatus::describe() const {
  switch (kind) {
    case Kind::exited:
      return number == 0 ? "finished" : fmt::format("exited with code {}", number);
    case Kind::killed:
      return fmt::format("was killed by {}{}", signal_name(number), core_dumped ? " (core dumped)" : "");
    case Kind::not_started:
      return fmt::format("could not be started ({}): {}", to_string(stage), errno_text(number));
    case Kind::lost:
      return reason.empty() ? "was lost" : "was lost: " + reason;
  }
  return {};
}

std::string signal_name(int signal) {
  if (const char* name = ::sigabbrev_np(signal)) return std::string("SIG") + name;
  return fmt::format("signal {}", signal);
}

}  // namespace trainrun
