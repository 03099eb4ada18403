// The only list of our exit codes. man/trainrun.1, README.md and tests/lint keep step with it.
#pragma once

#include "launcher/base/error.h"

namespace trainrun {

enum class ExitCode : int {
  success = 0,
  // 1..255 also: the first failing rank's own code, or 128 + the signal that killed it
  usage = 2,             // command line, configuration, host list
  differs = 65,          // trainrun replay: this build decides otherwise than the journal tells
  unreachable = 69,      // a host could not be reached, or was lost
  internal = 70,         // our own fault
  output_lost = 74,      // all went well, but what is printed could not be written
  try_again = 75,        // nothing is wrong with the request, but it cannot be done now
  timeout = 124,         // --timeout passed
  not_executable = 126,  // the program exists, but cannot be executed
  not_found = 127,       // the program does not exist
  hangup = 129,          // the launcher got SIGHUP
  interrupted = 130,     // ... SIGINT (^C)
  quit = 131,            // ... SIGQUIT
  output_closed = 141,   // the reader of our stdout went away
  terminated = 143,      // ... SIGTERM
};

constexpr int to_int(ExitCode code) { return static_cast<int>(code); }

// As a shell reports a child that a signal killed.
constexpr int exit_code_of_signal(int signal) { return 128 + signal; }

// Of a job whose output could not all be written. What went wrong before that says more.
constexpr int with_output_lost(int code, bool reader_left) {
  return code == 0 ? to_int(reader_left ? ExitCode::output_closed : ExitCode::output_lost) : code;
}

constexpr ExitCode exit_code_of(Code code) {
  switch (code) {
    case Code::usage:
    case Code::config:
      return ExitCode::usage;
    case Code::unreachable:
    case Code::host_key:
    case Code::auth:
    case Code::bootstrap:
    case Code::lost:
      return ExitCode::unreachable;
    case Code::not_found:
      return ExitCode::not_found;
    case Code::not_executable:
      return ExitCode::not_executable;
    case Code::timeout:
      return ExitCode::timeout;
    case Code::try_again:
      return ExitCode::try_again;
    case Code::protocol:
    case Code::refused:
    case Code::internal:
      return ExitCode::internal;
  }
  return ExitCode::internal;
}

}  // namespace trainrun
