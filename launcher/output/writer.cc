#include "launcher/output/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "launcher/base/fd.h"
#include "launcher/io/shared_wait.h"

namespace trainrun::output {

namespace {
enum class Kind { file, reopened, socket, careful };
constexpr std::size_t keep_capacity = 1u << 20;

bool disk_is_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }
}  // namespace

struct Writer::State {
  State(io::Loop& loop, int given, Handlers to) : fd(given), handlers(std::move(to)), waiter(loop) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) {
      gone = true;
      return;
    }
    if (S_ISSOCK(info.st_mode)) {
      kind = Kind::socket;
    } else if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)) {
      own = Fd(
          ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
      kind = own ? Kind::reopened
                 : Kind::careful;  // not ours to open (another user's terminal): small steps instead
    }
  }

  // As many bytes as can be written without waiting; -1 with errno as write.
  ssize_t some() {
    const char* data = bytes.data() + sent;
    const std::size_t size = bytes.size() - sent;
    switch (kind) {
      case Kind::file:
        return ::write(fd, data, size);
      case Kind::reopened:
        return ::write(own.get(), data, size);
      case Kind::socket:
        return ::send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
      case Kind::careful: {
        pollfd ready{fd, POLLOUT, 0};
        if (::poll(&ready, 1, 0) == 0) {
          errno = EAGAIN;
          return -1;
        }
        return ::write(fd, data,
                       std::min<std::size_t>(size, PIPE_BUF));  // so much a writable pipe takes at once
      }
    }
    return -1;
  }

  void push() {
    waiting = false;
    const bool high = bytes.size() - sent > low_water;
    while (!gone && sent < bytes.size()) {
      const ssize_t n = some();
      if (n >= 0) {
        sent += static_cast<std::size_t>(n);
        if (n > 0) within_line = bytes[sent - 1] != '\n';
        if (n > 0) full = false;
      } else if (disk_is_full(errno)) {
        const int error = errno;
        bytes.clear();
        sent = 0;
        if (!std::exchange(full, true)) handlers.full(error);
        break;
      } else if (errno == EAGAIN) {
        if (sent > keep_capacity) {
          bytes.erase(0, sent);
          sent = 0;
        }
        wait();
        break;
      } else if (errno != EINTR) {
        gone = true;
        bytes.clear();
        sent = 0;
        if (const auto closed = std::exchange(handlers.closed, nullptr)) closed();
        if (high && handlers.drained) handlers.drained();  // nobody waits for a reader that is gone
        return;
      }
    }
    if (sent == bytes.size()) {
      if (bytes.capacity() > keep_capacity) {
        bytes = {};
      } else {
        bytes.clear();
      }
      sent = 0;
    }
    if (high && bytes.size() - sent <= low_water && handlers.drained) handlers.drained();
  }

  void wait() {
    if (waiting) return;
    waiting = true;
    const int error = waiter.wait(own ? own.get() : fd, io::SharedWait::For::writing, [this] { push(); });
    if (error != 0) waiting = false;  // no descriptor is free: the next write tries again
  }

  int fd;
  Fd own;
  Kind kind = Kind::file;
  Handlers handlers;
  io::SharedWait waiter;
  std::string bytes;
  std::size_t sent = 0;
  bool waiting = false, gone = false;
  bool full = false, within_line = false;
};

Writer::Writer(io::Loop& loop, int fd, Handlers handlers)
    : state_(std::make_shared<State>(loop, fd, std::move(handlers))) {}
Writer::~Writer() { state_->handlers = {}; }

void Writer::write(std::string_view bytes) {
  if (state_->gone || bytes.empty()) return;
  if (state_->full && state_->within_line) state_->bytes = "\n";
  state_->bytes += bytes;
  if (!state_->waiting) state_->push();
}

std::size_t Writer::backlog() const { return state_->bytes.size() - state_->sent; }
bool Writer::closed() const { return state_->gone; }

void Writer::flush(Duration within) {
  const auto deadline = io::Loop::now() + within;
  while (!state_->gone && backlog() > 0) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - io::Loop::now());
    pollfd ready{state_->own ? state_->own.get() : state_->fd, POLLOUT, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) return;
    state_->push();
  }
}

}  // namespace trainrun::output
