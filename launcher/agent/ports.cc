#include "launcher/agent/ports.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cerrno>
#include <functional>
#include <string>
#include <utility>

#include "launcher/agent/port_holder.h"

namespace trainrun::agent {
namespace {

// An address of this host that no connection uses.
constexpr in_addr_t nobodys_address = 0x7f54524e;

enum class Reuse : bool { no, yes };

void reuse_address(int socket) {
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

Bound bind_port(in_addr_t address, std::uint16_t port, Reuse reuse) {
  Bound bound;
  bound.socket = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!bound.socket) {
    bound.error = errno;
    return bound;
  }
  if (reuse == Reuse::yes) reuse_address(bound.socket.get());
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = address;
  name.sin_port = htons(port);
  if (::bind(bound.socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    bound.error = errno;
    return bound;
  }
  socklen_t size = sizeof name;
  ::getsockname(bound.socket.get(), reinterpret_cast<sockaddr*>(&name), &size);
  bound.port = ntohs(name.sin_port);
  return bound;
}

// Searches first..last from the port after `last_time` on, and comes to that one at the end.
Bound search(std::uint16_t first, std::uint16_t last, std::uint16_t last_time,
             const std::function<Bound(std::uint16_t)>& try_port) {
  Bound bound;
  bound.error = EINVAL;  // an empty range
  if (first > last) return bound;
  const std::uint32_t size = last - first + 1U;
  const std::uint32_t begin = last_time >= first && last_time <= last ? last_time - first + 1U : 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    bound = try_port(static_cast<std::uint16_t>(first + (begin + i) % size));
    if (bound.error == 0 || !bound.socket) break;  // without a descriptor no other port helps
  }
  return bound;
}

// A port on which connections linger (TIME_WAIT) is given with SO_REUSEADDR only, and with that the system
// would also give one that another job holds. But a holder has the port on all addresses, and what lingers on
// its own alone: an address that nobody uses is free there only if nobody holds the port. It is kept until
// the port is ours, so that of two jobs that search at the same moment one goes on to the next port.
Bound bind_lingering(in_addr_t address, std::uint16_t port) {
  auto probe = bind_port(htonl(nobodys_address), port, Reuse::no);
  if (probe.error != 0) return probe;
  reuse_address(probe.socket.get());
  return bind_port(address, port, Reuse::yes);
}

}  // namespace

Bound bind_in_range(in_addr_t address, std::uint16_t first, std::uint16_t last) {
  auto bound =
      search(first, last, 0, [address](std::uint16_t port) { return bind_port(address, port, Reuse::no); });
  if (bound.error != EADDRINUSE) return bound;
  return search(first, last, 0, [address](std::uint16_t port) { return bind_lingering(address, port); });
}

HeldPort hold_port(std::uint16_t first, std::uint16_t last, const HeldPort& last_time) {
  const auto ours = last_time.answer.port;
  auto bound = search(first, last, ours,
                      [](std::uint16_t port) { return bind_port(htonl(INADDR_ANY), port, Reuse::no); });
  if (bound.error != 0) {
    bound = search(first, last, ours, [&](std::uint16_t port) {
      return port == ours && last_time.socket ? bind_port(htonl(INADDR_ANY), port, Reuse::yes)
                                              : bind_lingering(htonl(INADDR_ANY), port);
    });
  }
  if (bound.error == 0) reuse_address(bound.socket.get());
  return {std::move(bound.socket), {bound.port, bound.error}};
}

wire::PortHeld look_at_port(std::uint16_t port) {
  const auto bound = bind_port(htonl(INADDR_ANY), port, Reuse::yes);
  if (bound.error == 0) return {port, 0};
  return {port, bound.error, bound.error == EADDRINUSE ? port_holder(port) : std::string()};
}

}  // namespace trainrun::agent
