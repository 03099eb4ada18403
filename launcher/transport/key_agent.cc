#include "launcher/transport/key_agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "launcher/base/error.h"
#include "launcher/base/fd.h"

namespace trainrun::transport {
namespace {

constexpr auto agent_limit = seconds(2);
constexpr std::array<char, 5> which_keys{0, 0, 0, 1, 11};  // SSH_AGENTC_REQUEST_IDENTITIES

}  // namespace

std::string key_agent() {
  const char* path = std::getenv("SSH_AUTH_SOCK");
  return path == nullptr ? std::string() : path;
}

AgentProblem agent_problem(const std::string& path, const DialLimit& time_limit) {
  const auto dead = [&path](int error) {
    return AgentProblem{fmt::format("{}: {}", path, errno_text(error))};
  };
  const AgentProblem hangs{path + ": no answer", true};
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof name.sun_path) return dead(ENAMETOOLONG);
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  const Fd agent(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!agent) return dead(errno);
  // EAGAIN: as many wait for it already as can.
  if (::connect(agent.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0)
    return errno == EAGAIN ? hangs : dead(errno);
  if (::send(agent.get(), which_keys.data(), which_keys.size(), MSG_NOSIGNAL) < 0) return dead(errno);
  const auto wake = time_limit.wait(agent.get(), POLLIN, agent_limit);
  char byte = 0;
  const auto count = ::recv(agent.get(), &byte, 1, MSG_DONTWAIT);
  if (wake != DialLimit::Wake::ready || (count < 0 && errno == EAGAIN)) return hangs;
  if (count == 0) return dead(ECONNRESET);
  return count > 0 ? AgentProblem{} : dead(errno);
}

}  // namespace trainrun::transport
