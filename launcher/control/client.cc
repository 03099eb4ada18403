#include "launcher/control/client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "launcher/base/fd.h"
#include "launcher/control/socket_place.h"

namespace trainrun::control {
namespace {

using Clock = std::chrono::steady_clock;

// False when the deadline has passed.
bool wait_for(int fd, short what, Instant deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd waiting{fd, what, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<long>(left.count(), 1'000'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

tl::unexpected<Error> no_answer(int fd, Duration within) {
  const auto pid = peer_of(fd).pid;
  return fail(Code::unreachable,
              fmt::format("the launcher (process {}) did not answer within {}", pid, format_duration(within)),
              fmt::format("if it was stopped (^Z): kill -CONT {}", pid));
}

}  // namespace

RunningJobs find_jobs(const std::vector<std::string>& directories) {
  RunningJobs found;
  for (const auto& directory : directories) {
    const auto ok = check_directory(directory);
    if (!ok && ok.error().code == Code::not_found) continue;
    if (!ok) {
      found.problems.push_back(ok.error().message);
      continue;
    }
    for (auto& id : live_jobs(directory)) {
      auto socket = socket_path(directory, id);
      found.jobs.push_back({std::move(id), std::move(socket)});
    }
  }
  std::sort(found.jobs.begin(), found.jobs.end(),
            [](const RunningJob& a, const RunningJob& b) { return a.id < b.id; });
  return found;
}

Result<std::string> ask(const std::string& socket, const std::string& request, Duration within) {
  const auto deadline = Clock::now() + within;
  const auto connected = connect_to(socket, within);
  if (!connected) return tl::unexpected(connected.error());
  const int fd = connected->get();
  const auto line = request + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const auto n = ::send(fd, line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      if (!wait_for(fd, POLLOUT, deadline)) return no_answer(fd, within);
    } else if (errno != EINTR) {
      break;  // it hung up, but may have said why
    }
  }
  std::string reply;
  char buffer[65536];
  while (reply.size() <= longest_reply) {
    if (!wait_for(fd, POLLIN, deadline)) return no_answer(fd, within);
    const auto n = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) {
      const std::string_view part(buffer, static_cast<std::size_t>(n));
      const auto end = part.find('\n');
      reply += part.substr(0, end);
      if (end != std::string_view::npos) return reply;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      return fail(Code::lost, "the launcher went away without an answer", "the job may have ended");
    }
  }
  return fail(Code::protocol, "the launcher's answer has no end");
}

}  // namespace trainrun::control
