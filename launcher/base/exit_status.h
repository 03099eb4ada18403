// How one worker ended. A value, not an int: 9 could be `exit 9` or SIGKILL.
#pragma once

#include <cstdint>
#include <string>

namespace trainrun {

// Where the start of a program failed. The order is that of the steps in the child.
enum class SpawnStage : std::uint8_t { none, fork, session, files, directory, affinity, exec };
std::string to_string(SpawnStage stage);
constexpr bool is_known(SpawnStage stage) { return stage <= SpawnStage::exec; }

struct ExitStatus {
  enum class Kind : std::uint8_t { exited, killed, not_started, lost };

  Kind kind = Kind::exited;
  int number = 0;            // exited: code 0..255; killed: signal; not_started: errno; lost: unused
  bool core_dumped = false;  // killed only
  SpawnStage stage = SpawnStage::none;
  std::string reason{};  // lost: why, for people

  static ExitStatus exited(int code) { return {Kind::exited, code}; }
  static ExitStatus killed(int signal, bool core) { return {Kind::killed, signal, core}; }
  static ExitStatus not_started(SpawnStage stage, int error) {
    return {Kind::not_started, error, false, stage};
  }
  static ExitStatus lost(std::string why) { return {Kind::lost, 0, false, SpawnStage::none, std::move(why)}; }
  static ExitStatus from_wait(int raw);  // what waitpid gave for a process that ended

  [[nodiscard]] bool success() const { return kind == Kind::exited && number == 0; }
  // The shell's convention: code, 128+signal, 127 not found, 126 not executable or otherwise not started; 75
  // no process or open file to spare, 69 lost.
  [[nodiscard]] int exit_code() const;
  // "exited with code 3", "was killed by SIGSEGV (core dumped)", "could not be started: ...".
  [[nodiscard]] std::string describe() const;

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

// "SIGTERM"; "signal 40" for those without a name.
std::string signal_name(int signal);

}  // namespace trainrun
