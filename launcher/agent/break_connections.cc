#include "launcher/agent/break_connections.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "launcher/agent/socket_owner.h"
#include "launcher/base/fd.h"

namespace trainrun::agent {
namespace {

int option_of(int socket, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

std::string written(const sockaddr_storage& at) {
  const auto bytes = [](const auto& field) {
    return std::string(reinterpret_cast<const char*>(&field), sizeof field);
  };
  if (at.ss_family == AF_INET) {
    const auto& it = reinterpret_cast<const sockaddr_in&>(at);
    return bytes(it.sin_addr) + bytes(it.sin_port);
  }
  if (at.ss_family == AF_INET6) {
    const auto& it = reinterpret_cast<const sockaddr_in6&>(at);
    return bytes(it.sin6_addr) + bytes(it.sin6_port);
  }
  return {};
}

// None: it is no connection by TCP. One that listens would not live through a shutdown.
std::vector<std::string> ends_of(int socket) {
  if (option_of(socket, SO_TYPE) != SOCK_STREAM || option_of(socket, SO_ACCEPTCONN) != 0) return {};
  std::vector<std::string> ends;
  for (const auto ask : {::getsockname, ::getpeername}) {
    sockaddr_storage at{};
    socklen_t size = sizeof at;
    if (ask(socket, reinterpret_cast<sockaddr*>(&at), &size) != 0) return {};
    if (auto end = written(at); !end.empty()) ends.push_back(std::move(end));
  }
  return ends;
}

}  // namespace

std::size_t break_connections(const std::vector<std::string>& ends, const std::vector<pid_t>& processes) {
  const std::set<std::string> wanted(ends.begin(), ends.end());
  std::set<std::uint64_t> seen;  // forked processes share sockets
  std::size_t broken = 0;
  for (const auto process : processes) {
    const Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0U)));
    if (!handle) continue;
    each_socket(std::to_string(process), [&](int descriptor, std::uint64_t inode) {
      if (!seen.insert(inode).second) return false;
      const Fd socket(static_cast<int>(::syscall(SYS_pidfd_getfd, handle.get(), descriptor, 0U)));
      const auto its = socket ? ends_of(socket.get()) : std::vector<std::string>();
      const bool is_meant =
          std::any_of(its.begin(), its.end(), [&](const std::string& end) { return wanted.contains(end); });
      if (is_meant && ::shutdown(socket.get(), SHUT_RDWR) == 0) ++broken;
      return false;
    });
  }
  return broken;
}

}  // namespace trainrun::agent
