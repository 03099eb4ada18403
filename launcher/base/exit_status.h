// How one worker ended. A value, not an int: 9 could be `exit 9` or SIGKILL.
#pragma once

#include <cstdint>
#include <string>

namespace trainrun {

// Where the start of a program failed. The order is that of the steps in the child; before them pmix: it
// needs a helper, and its host has none that serves.
enum class SpawnStage : std::uint8_t { none, fork, session, files, directory, affinity, exec, pmix };
std::string to_string(SpawnStage stage);
constexpr bool is_known(SpawnStage stage) { return stage <= SpawnStage::pmix; }

struct ExitStatus {
  // aborted: it called MPI_Abort; its process may still be there. deserted: it exited with code 0 while
  // others counted on it.
  enum class Kind : std::uint8_t { exited, killed, not_started, lost, aborted, deserted };

  Kind kind = Kind::exited;
  int number = 0;  // exited: code 0..255; killed: signal; not_started: errno; aborted: the code given
  bool core_dumped = false;  // killed only
  SpawnStage stage = SpawnStage::none;
  std::string reason{};  // lost, deserted: why, for people

  static ExitStatus exited(int code) { return {Kind::exited, code}; }
  static ExitStatus killed(int signal, bool core) { return {Kind::killed, signal, core}; }
  static ExitStatus not_started(SpawnStage stage, int error) {
    return {Kind::not_started, error, false, stage};
  }
  static ExitStatus lost(std::string why) { return {Kind::lost, 0, false, SpawnStage::none, std::move(why)}; }
  static ExitStatus aborted(int code) { return {Kind::aborted, code}; }
  static ExitStatus deserted(std::string how) {
    return {Kind::deserted, 0, false, SpawnStage::none, std::move(how)};
  }
  static ExitStatus from_wait(int raw);  // what waitpid gave for a process that ended

  [[nodiscard]] bool success() const { return kind == Kind::exited && number == 0; }
  // It was ordered, and ended by us before it ran.
  [[nodiscard]] bool cancelled() const;
  // Which signal ended it, or its child: a shell reports that in its own exit code. 0: none.
  [[nodiscard]] int signal() const;
  // The shell's convention: code, 128+signal, 127 not found, 126 not executable or otherwise not started; 75
  // no process or open file to spare, 69 lost; of MPI_Abort the lowest byte; 1 where these would say success.
  [[nodiscard]] int exit_code() const;
  // "exited with code 3", "was killed by SIGSEGV (core dumped)", "could not be started: ...".
  [[nodiscard]] std::string describe() const;

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

// "SIGTERM"; "signal 40" for those without a name.
std::string signal_name(int signal);

}  // namespace trainrun
