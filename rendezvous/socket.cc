#include "rendezvous/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "launcher/base/strings.h"

namespace trainrun::rendezvous {
namespace {

// A wait is cut so, and a cut that ends later than it should by more than `stop_shows_from` was a stop.
constexpr Duration longest_cut = seconds(1);
constexpr Duration stop_shows_from = seconds(1);

// Until `fd` is ready for `events`; false when the deadline came first.
bool wait_until_ready(int fd, short events, Instant& deadline) {
  for (;;) {
    const auto before = std::chrono::steady_clock::now();
    const auto left = std::clamp<Duration>(deadline - before, Duration::zero(), longest_cut);
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::chrono::ceil<milliseconds>(left).count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    const auto now = std::chrono::steady_clock::now();
    if (const auto late = now - before - left; late > stop_shows_from) deadline += late;
    if (now >= deadline) return false;
  }
}

void set_option(int fd, int level, int name, int value) {
  // Each of these only makes things better; a system that lacks one still works.
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof value));
}

Result<Fd> connect_one(const addrinfo& target, Instant& deadline) {
  Fd fd(::socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail(Code::unreachable, errno_text(errno));
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  // A server whose host lost its power is noticed within about 20 s, also while a call waits for a day.
  set_option(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(fd.get(), IPPROTO_TCP, TCP_KEEPCNT, 3);
  if (::connect(fd.get(), target.ai_addr, target.ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS) return fail(Code::unreachable, errno_text(errno));
  if (!wait_until_ready(fd.get(), POLLOUT, deadline)) return fail(Code::timeout, "no answer in time");
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return fail(Code::unreachable, errno_text(error));
  return fd;
}

}  // namespace

Result<std::pair<std::string, std::uint16_t>> split_address(std::string_view text) {
  const auto colon = text.rfind(':');
  auto host = text.substr(0, colon == std::string_view::npos ? 0 : colon);
  const auto port =
      colon == std::string_view::npos ? std::nullopt : parse_unsigned<std::uint16_t>(text.substr(colon + 1));
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.size() > 255 || !port ||
      (!bracketed && host.find_first_of(":[]") != std::string_view::npos))
    return fail(Code::config,
                fmt::format("{} is not an address; expected HOST:PORT or [IPV6]:PORT", quoted(text)));
  return std::pair(std::string(host), *port);
}

Result<Socket> Socket::connect(const std::string& address, Instant& deadline) {
  const auto parts = split_address(address);
  if (!parts) return tl::unexpected(parts.error());
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error =
          ::getaddrinfo(parts->first.c_str(), std::to_string(parts->second).c_str(), &hints, &found);
      error != 0)
    return fail(Code::unreachable,
                fmt::format("cannot resolve {}: {}", quoted(parts->first), ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::string why = "no address";
  Code code = Code::unreachable;
  for (const auto* target = found; target != nullptr; target = target->ai_next) {
    auto connected = connect_one(*target, deadline);
    if (connected) return Socket(std::move(*connected));
    why = connected.error().message;
    code = connected.error().code;
  }
  return fail(code, fmt::format("cannot connect to {}: {}", address, why));
}

Result<void> Socket::send(std::string_view bytes, Instant& deadline) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_until_ready(fd_.get(), POLLOUT, deadline))
        return fail(Code::timeout, "the peer takes nothing");
    } else if (errno != EINTR) {
      return fail(Code::lost, errno_text(errno));
    }
  }
  return {};
}

Result<std::string> Socket::receive(Instant& deadline) {
  std::array<char, 65536> buffer;
  for (;;) {
    if (!wait_until_ready(fd_.get(), POLLIN, deadline)) return fail(Code::timeout, "no answer in time");
    const auto got = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) return std::string(buffer.data(), static_cast<std::size_t>(got));
    if (got == 0) return fail(Code::lost, "the connection was closed");
    if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) return fail(Code::lost, errno_text(errno));
  }
}

void Socket::shut_down() { static_cast<void>(::shutdown(fd_.get(), SHUT_RDWR)); }

std::string Socket::local_address() const {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  std::array<char, NI_MAXHOST> text{};
  if (::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
    return {};
  return text.data();
}

}  // namespace trainrun::rendezvous
