#include "launcher/core/outcome.h"

#include <algorithm>

#include "cli/exit_code.h"

namespace trainrun::core {

std::size_t first_cause(const std::vector<Failure>& failures) {
  std::size_t earliest = 0;
  for (std::size_t i = 1; i < failures.size(); ++i) {
    if (failures[i].at < failures[earliest].at) earliest = i;
  }
  if (!failures[earliest].lost_peer) return earliest;
  // A peer's death and the death of those that noticed it may be closer than the clocks can tell.
  const auto& candidate = failures[earliest];
  std::optional<std::size_t> primary;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    const auto& other = failures[i];
    if (other.lost_peer || other.at - other.error > candidate.at + candidate.error) continue;
    if (!primary || other.at < failures[*primary].at) primary = i;
  }
  return primary.value_or(earliest);
}

bool sounds_like_lost_peer(const std::vector<std::string>& last_words) {
  for (const auto& line : last_words) {
    for (const auto* words : {"Connection closed by peer", "Connection reset by peer", "peer lost",
                              "PeerLost", "Broken pipe", "remote process exited or there was a network error",
                              "NCCL communicator was aborted", "Socket Timeout", "Timed out waiting"}) {
      if (line.find(words) != std::string::npos) return true;
    }
  }
  return false;
}

int exit_code_of(const Outcome& outcome) {
  const auto number = [](ExitCode code) { return static_cast<int>(code); };
  switch (outcome.kind) {
    case Outcome::Kind::success:
      return number(ExitCode::success);
    case Outcome::Kind::worker_failed:
      return outcome.cause ? outcome.cause->status.exit_code() : number(ExitCode::internal);
    case Outcome::Kind::host_lost:
      return number(ExitCode::unreachable);
    case Outcome::Kind::hosts_failed: {
      if (outcome.host_errors.empty()) return number(ExitCode::unreachable);  // none was left to ask
      const auto first = exit_code_of(outcome.host_errors.front().second.code);
      const bool all_alike =
          std::all_of(outcome.host_errors.begin(), outcome.host_errors.end(),
                      [first](const auto& it) { return exit_code_of(it.second.code) == first; });
      return number(all_alike ? first : ExitCode::unreachable);
    }
    case Outcome::Kind::port_refused:
      return number(ExitCode::try_again);
    case Outcome::Kind::user_signal:
      return 128 + outcome.signal;
    case Outcome::Kind::output_closed:
      return number(ExitCode::output_closed);
    case Outcome::Kind::timed_out:
    case Outcome::Kind::hung:
      return number(ExitCode::timeout);
    case Outcome::Kind::no_hosts:
      return number(ExitCode::unreachable);
  }
  return number(ExitCode::internal);
}

}  // namespace trainrun::core
