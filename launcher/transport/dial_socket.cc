#include "launcher/transport/dial_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "launcher/base/open_files.h"
#include "launcher/transport/name_lookup.h"
#include "launcher/transport/ssh_words.h"

namespace trainrun::transport {

DialLimit::Wake DialLimit::wait(int fd, short events, Duration at_most) const {
  const auto begun = std::chrono::steady_clock::now();
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    const auto left =
        std::min<Duration>(deadline_ - now, at_most == Duration::max() ? at_most : at_most - (now - begun));
    std::array<pollfd, 2> fds{{{cancel_fd_, POLLIN, 0}, {fd, events, 0}}};
    const auto ms = std::clamp<std::int64_t>((left.count() + 999'999) / 1'000'000, 0, 3'600'000);
    const int count = poll(fds.data(), fds.size(), static_cast<int>(ms));
    if (count < 0 && errno == EINTR) continue;
    if ((fds[0].revents & POLLIN) != 0) return Wake::cancelled;
    if (fds[1].revents != 0) return Wake::ready;
    const auto later = std::chrono::steady_clock::now();
    if (later >= deadline_) return Wake::too_late;
    if (at_most != Duration::max() && later - begun >= at_most) return Wake::ready;
  }
}

Error DialLimit::error(Wake wake, const std::string& host, const std::string& step) const {
  if (wake == Wake::cancelled) return {Code::lost, host + ": the dial was abandoned"};
  return silent_host(host, step, spent());
}

void acknowledge_at_once(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

namespace {

std::string number_of(Address address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes =
      address.family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(&address.bytes)->sin6_addr)
          : static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(&address.bytes)->sin_addr);
  return inet_ntop(address.family, bytes, text.data(), text.size()) == nullptr ? std::string() : text.data();
}

}  // namespace

Duration time_for_address(Duration left, std::size_t others) {
  if (others == 0) return Duration::max();
  return std::min<Duration>(seconds(5), left / static_cast<Duration::rep>(others + 1));
}

Result<Fd> dial_socket(const std::string& host, const std::string& address, std::uint16_t port,
                       const DialLimit& time_limit) {
  auto answer = look_up(host, address, time_limit);
  if (!answer) return tl::unexpected(answer.error());
  if (!answer->failure.empty()) return tl::unexpected(unreachable_host(host, {}, port, answer->failure));

  Error last = unreachable_host(host, {}, port, "its name has no address");
  for (auto& each : answer->addresses) {
    if (each.family == AF_INET6) {
      reinterpret_cast<sockaddr_in6*>(&each.bytes)->sin6_port = htons(port);
    } else {
      reinterpret_cast<sockaddr_in*>(&each.bytes)->sin_port = htons(port);
    }
    Fd fd(socket(each.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int number = 0;
    if (!fd || connect(fd.get(), reinterpret_cast<sockaddr*>(&each.bytes), each.size) != 0) number = errno;
    if (number == EINPROGRESS) {
      const auto others = static_cast<std::size_t>(&answer->addresses.back() - &each);
      const auto at_most = time_for_address(time_limit.left(), others);
      const auto wake = time_limit.wait(fd.get(), POLLOUT, at_most);
      if (wake != DialLimit::Wake::ready) return tl::unexpected(time_limit.error(wake, host, "connecting"));
      socklen_t size = sizeof number;
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &number, &size);
      sockaddr_storage peer{};
      socklen_t peer_size = sizeof peer;
      if (number == 0 && getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) {
        number = ETIMEDOUT;
      }
    }
    if (number == 0) {
      const int on = 1;
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      acknowledge_at_once(fd.get());
      return fd;
    }
    if (const auto hint = open_files_hint(number); !hint.empty())
      return fail(Code::internal, host + ": " + errno_text(number), hint);
    last = unreachable_host(host, number_of(each), port, errno_text(number));
  }
  return tl::unexpected(last);
}

}  // namespace trainrun::transport
