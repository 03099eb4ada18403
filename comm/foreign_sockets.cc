#include "comm/foreign_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::comm {
namespace {

using Host = std::array<std::uint8_t, 16>;

Host mapped(const in_addr& host) {
  Host out{};
  out[10] = out[11] = 0xff;
  std::memcpy(out.data() + 12, &host, sizeof host);
  return out;
}

// An end of a connection of TCP.
std::optional<std::pair<Host, std::uint16_t>> end_of(int socket,
                                                     int (*name)(int, sockaddr*, socklen_t*) noexcept) {
  sockaddr_storage end{};
  socklen_t size = sizeof end;
  if (name(socket, reinterpret_cast<sockaddr*>(&end), &size) != 0) return std::nullopt;
  if (end.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(end);
    return std::pair(mapped(in.sin_addr), ntohs(in.sin_port));
  }
  if (end.ss_family != AF_INET6) return std::nullopt;
  const auto& in = reinterpret_cast<const sockaddr_in6&>(end);
  Host host{};
  std::memcpy(host.data(), &in.sin6_addr, host.size());
  return std::pair(host, ntohs(in.sin6_port));
}

bool holds(const std::set<std::pair<Host, std::uint16_t>>& ends, const std::pair<Host, std::uint16_t>& end) {
  if (ends.contains(end)) return true;
  // Who listens on all addresses.
  return ends.contains({Host{}, end.second}) || ends.contains({mapped(in_addr{INADDR_ANY}), end.second});
}

int option(int socket, int which) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, which, &value, &size) == 0 ? value : -1;
}

}  // namespace

Outcome<ForeignSockets::End> ForeignSockets::parse(const std::string& text) {
  const auto colon = text.rfind(':');
  auto host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto port =
      colon == std::string::npos ? std::nullopt : parse_unsigned<std::uint16_t>(text.substr(colon + 1));
  in_addr v4{};
  Host v6{};
  if (port && ::inet_pton(AF_INET, host.c_str(), &v4) == 1) return End{mapped(v4), *port};
  if (port && ::inet_pton(AF_INET6, host.c_str(), v6.data()) == 1) return End{v6, *port};
  return fail(TRC_INVALID, fmt::format("{} is no numeric address with a port", trainrun::quoted(text)));
}

Outcome<void> ForeignSockets::name(const std::vector<std::string>& own,
                                   const std::vector<std::string>& peers) {
  std::set<End> here, there;
  for (const auto& [texts, ends] : {std::pair(&own, &here), std::pair(&peers, &there)}) {
    for (const auto& text : *texts) {
      const auto end = parse(text);
      if (!end) return tl::unexpected(end.error());
      ends->insert(*end);
    }
  }
  const std::lock_guard lock(mutex_);
  own_ = std::move(here);
  peers_ = std::move(there);
  return {};
}

bool ForeignSockets::ours(int socket) const {
  if (option(socket, SO_TYPE) != SOCK_STREAM || option(socket, SO_ACCEPTCONN) != 0) return false;
  const auto own = end_of(socket, ::getsockname);
  if (own && holds(own_, *own)) return true;
  const auto peer = end_of(socket, ::getpeername);
  return peer && holds(peers_, *peer);
}

void ForeignSockets::shut(bool whole) const {
  const std::lock_guard lock(mutex_);
  if (own_.empty() && peers_.empty()) return;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end;
       at.increment(error)) {
    const auto number = parse_unsigned<std::uint32_t>(at->path().filename().string());
    struct stat what {};
    // No duplicate of a file: when it is closed, the process loses its locks on that file.
    if (!number || ::fstat(static_cast<int>(*number), &what) != 0 || !S_ISSOCK(what.st_mode)) continue;
    // The number may be closed and given to something else at any moment: what is looked at and shut is a
    // duplicate, which cannot change.
    const Fd socket(::fcntl(static_cast<int>(*number), F_DUPFD_CLOEXEC, 0));
    if (socket && ours(socket.get())) ::shutdown(socket.get(), whole ? SHUT_RDWR : SHUT_RD);
  }
}

}  // namespace trainrun::comm
