#include "comm/backends/gloo/descriptors.h"

#include <fcntl.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "launcher/base/strings.h"

namespace trainrun::comm {
namespace {

// Calls use(number, what) for each descriptor. One that is closed meanwhile is passed over, and a system that
// does not show them inherits them, as it would without this.
template <class Use>
void for_each_descriptor(Use use) {
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end;
       at.increment(error)) {
    const auto number = parse_unsigned<std::uint32_t>(at->path().filename().string());
    std::error_code gone;
    const auto what = std::filesystem::read_symlink(at->path(), gone);
    if (number && !gone) use(static_cast<int>(*number), what.string());
  }
}

void close_on_exec(int fd) {
  if (const int flags = ::fcntl(fd, F_GETFD); flags >= 0) ::fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
}

bool same(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) {
    const auto& x = reinterpret_cast<const sockaddr_in&>(a);
    const auto& y = reinterpret_cast<const sockaddr_in&>(b);
    return x.sin_port == y.sin_port && x.sin_addr.s_addr == y.sin_addr.s_addr;
  }
  const auto& x = reinterpret_cast<const sockaddr_in6&>(a);
  const auto& y = reinterpret_cast<const sockaddr_in6&>(b);
  return a.ss_family == AF_INET6 && x.sin6_port == y.sin6_port &&
         std::memcmp(&x.sin6_addr, &y.sin6_addr, sizeof x.sin6_addr) == 0;
}

}  // namespace

std::set<int> polls() {
  std::set<int> found;
  for_each_descriptor([&](int fd, const std::string& what) {
    if (what == "anon_inode:[eventpoll]") found.insert(fd);
  });
  return found;
}

void close_new_polls_on_exec(const std::set<int>& before) {
  for (const int fd : polls())
    if (!before.contains(fd)) close_on_exec(fd);
}

bool Connections::is_ours(int fd) const {
  for (const auto name : {&::getsockname, &::getpeername}) {
    sockaddr_storage end{};
    socklen_t size = sizeof end;
    if (name(fd, reinterpret_cast<sockaddr*>(&end), &size) != 0) continue;
    if (std::any_of(ends_.begin(), ends_.end(), [&](const auto& one) { return same(one, end); })) return true;
  }
  return false;
}

Connections::Connections(std::vector<sockaddr_storage> ends) : ends_(std::move(ends)) {
  for_each_descriptor([&](int fd, const std::string& what) {
    if (!what.starts_with("socket:") || !is_ours(fd)) return;
    close_on_exec(fd);
    found_.push_back(fd);
  });
}

void Connections::free_send_buffers() const {
  // A kernel before 5.14 does not unlock it: then it stays as large as net.core.wmem_max allows.
  constexpr int large = 4 << 20, unlocked = 0;
  for (const int fd : found_) {
    if (!is_ours(fd)) continue;
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &large, sizeof large);
    ::setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &unlocked, sizeof unlocked);
  }
}

}  // namespace trainrun::comm
