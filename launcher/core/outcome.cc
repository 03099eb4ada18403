#include "launcher/core/outcome.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <numeric>

#include "launcher/base/exit_code.h"

namespace trainrun::core {

namespace {

// How much later than a peer the agent of the dead may notice a death: its host is busy, or the kernel frees
// what the process had, connections first.
constexpr Duration noticed_late = milliseconds(250);

// Done to the program by the kernel or by somebody's hand; or it went without a word while others counted on
// it, which is never what the end of another leads to.
bool is_sudden(const ExitStatus& status) {
  switch (status.signal()) {
    case SIGKILL:
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
    case SIGSYS:
    case SIGXCPU:
    case SIGXFSZ:
      return true;
    default:
      return status.kind == ExitStatus::Kind::not_started || status.kind == ExitStatus::Kind::deserted;
  }
}

// Indices of those for which `holds`; all, when it holds for none.
template <class Holds>
std::vector<std::size_t> preferred(const std::vector<Failure>& failures,
                                   const std::vector<std::size_t>& among, Holds&& holds) {
  std::vector<std::size_t> some;
  for (const auto i : among)
    if (holds(failures[i])) some.push_back(i);
  return some.empty() ? among : some;
}

}  // namespace

std::size_t first_cause(const std::vector<Failure>& failures) {
  std::vector<std::size_t> all(failures.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  // SIGKILL is no answer to a request: one that was not ours came from elsewhere, whatever we had sent.
  const auto own = preferred(
      failures, all, [](const Failure& it) { return !it.after_signal || it.status.signal() == SIGKILL; });
  const auto candidates = preferred(failures, own, [](const Failure& it) { return !it.lost_peer; });
  const auto earlier = [&](std::size_t a, std::size_t b) { return failures[a].at < failures[b].at; };
  const auto first = *std::min_element(candidates.begin(), candidates.end(), earlier);
  if (is_sudden(failures[first].status)) return first;
  const auto latest = failures[first].at + failures[first].error + noticed_late;
  auto cause = first;
  for (const auto i : candidates) {
    const auto& it = failures[i];
    if (is_sudden(it.status) && it.at - it.error <= latest && (cause == first || earlier(i, cause)))
      cause = i;
  }
  return cause;
}

bool sounds_like_lost_peer(const std::vector<std::string>& last_words) {
  constexpr std::array words{
      // sockets, Gloo, torch and its store
      "Connection closed by peer", "Connection reset by peer", "Connection refused", "Broken pipe",
      "Connection was likely closed", "failed to recv, got 0 bytes",
      "Application timeout caused pair closure", "Socket Timeout", "socket has timed out",
      "Timed out waiting",
      // NCCL
      "remote process exited or there was a network error", "NCCL communicator was aborted",
      "Connection closed by remote peer", "ncclRemoteError",
      // MPICH, Open MPI, UCX, libfabric
      "Communication error with rank", "Connection reset by remote peer", "Endpoint is not connected",
      "Endpoint timeout", "connection closed", "socket closed", "MPI_ERR_PROC_FAILED", "PARTIAL SUCCESS",
      // Horovod, whose other ranks hear of an exception so
      "Horovod has been shut down",
      // comm
      "peer lost", "PeerLost", "has left"};
  return std::any_of(last_words.begin(), last_words.end(), [&](const std::string& line) {
    return std::any_of(words.begin(), words.end(),
                       [&line](const char* some) { return line.find(some) != std::string::npos; });
  });
}

std::string_view to_string(Outcome::Kind kind) {
  constexpr std::array<std::string_view, 13> names{
      "success",     "worker failed", "host lost", "hosts failed", "port refused",
      "user signal", "output closed", "timed out", "hung",         "exchange lost",
      "no hosts",    "mpi mixed",     "unfinished"};
  return names[static_cast<std::size_t>(kind)];
}

std::string who_asked(int signal, bool by_ctl) { return by_ctl ? "ctl end" : signal_name(signal); }

int exit_code_of(const Outcome& outcome) {
  switch (outcome.kind) {
    case Outcome::Kind::success:
      return to_int(ExitCode::success);
    case Outcome::Kind::worker_failed:
      return outcome.cause ? outcome.cause->status.exit_code() : to_int(ExitCode::internal);
    case Outcome::Kind::host_lost:
      return to_int(ExitCode::unreachable);
    case Outcome::Kind::hosts_failed: {
      if (outcome.host_errors.empty()) return to_int(ExitCode::unreachable);  // none was left to ask
      const auto first = exit_code_of(outcome.host_errors.front().second.code);
      const bool all_alike =
          std::all_of(outcome.host_errors.begin(), outcome.host_errors.end(),
                      [first](const auto& it) { return exit_code_of(it.second.code) == first; });
      return to_int(all_alike ? first : ExitCode::unreachable);
    }
    case Outcome::Kind::port_refused:
      return to_int(ExitCode::try_again);
    case Outcome::Kind::mpi_mixed:
      return to_int(ExitCode::usage);
    case Outcome::Kind::user_signal:
      return exit_code_of_signal(outcome.signal);
    case Outcome::Kind::output_closed:
      return to_int(ExitCode::output_closed);
    case Outcome::Kind::timed_out:
    case Outcome::Kind::hung:
    case Outcome::Kind::unfinished:
      return to_int(ExitCode::timeout);
    case Outcome::Kind::exchange_lost:
      return to_int(ExitCode::internal);
    case Outcome::Kind::no_hosts:
      return to_int(ExitCode::unreachable);
  }
  return to_int(ExitCode::internal);
}

}  // namespace trainrun::core
