#include "launcher/base/fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "launcher/base/open_files.h"
#include "launcher/base/pipe.h"
#include "launcher/base/strings.h"

namespace trainrun {

void Fd::reset() {
  // close is not repeated on EINTR: on Linux the descriptor is gone by then, and its number may be another's.
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

Result<FdPair> make_pipe() {
  FdPair ends;
  if (const int error = open_pipe(ends); error != 0)
    return fail(Code::internal, "cannot make a pipe: " + errno_text(error), open_files_hint(error));
  return ends;
}

Result<FdPair> make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail(Code::try_again, "cannot make a socket pair: " + errno_text(errno), open_files_hint(errno));
  }
  return FdPair{Fd(ends[0]), Fd(ends[1])};
}

Result<void> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail(Code::lost, "cannot write: " + errno_text(errno));
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd) return fail(Code::config, fmt::format("cannot read {}: {}", quoted(path, 200), errno_text(errno)));
  std::string content;
  char buffer[65536];
  // No more than may be there: of /proc/sys the kernel clears as many bytes as are asked for, each time.
  const auto most = std::min(limit, sizeof buffer - 1) + 1;
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, most);
    if (n == 0) return content;
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail(Code::config, fmt::format("cannot read {}: {}", quoted(path, 200), errno_text(errno)));
    }
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > limit) {
      return fail(Code::config, fmt::format("{} is larger than {} bytes", quoted(path, 200), limit));
    }
  }
}

void set_nonblocking(int fd, bool on) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0) ::fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

}  // namespace trainrun
