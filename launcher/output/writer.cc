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
enum class Kind { file, thread, reopened, socket, closed };
constexpr std::size_t keep_capacity = 1u << 20;

bool disk_is_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }
}  // namespace

struct Writer::State {
  State(io::Loop& loop, FileThreads& threads, int given, std::string name, Handlers to)
      : fd(given), handlers(std::move(to)), waiter(loop), files(threads) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) {
      gone = true;
      return;
    }
    if ((::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {  // see base/standard_streams.h
      kind = Kind::closed;
    } else if (S_ISSOCK(info.st_mode)) {
      kind = Kind::socket;
    } else if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)) {
      own = Fd(
          ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
      if (own) {
        kind = Kind::reopened;
      } else {
        write_in_thread(loop, std::move(name));
      }
    } else {
      file = files.add(fd, std::move(name), handlers.full);
    }
  }

  [[nodiscard]] bool is_file() const { return !gone && (kind == Kind::file || kind == Kind::thread); }

  void write_in_thread(io::Loop& loop, std::string name) {
    kind = Kind::thread;
    FileThread::Handlers to;
    to.drained = [this] {
      if (handlers.drained) handlers.drained();
    };
    to.moved = [this] { handlers.moved(); };
    thread = std::make_unique<FileThread>(loop, std::move(to), seconds(5), PIPE_BUF);
    const auto number = thread->add(fd, std::move(name), [this](int error) {
      if (disk_is_full(error)) return handlers.full(error);
      close();
    });
    file = {thread.get(), number};
  }

  void close() {
    gone = true;
    drop();
    if (const auto closed = std::exchange(handlers.closed, nullptr)) closed();
  }

  // As many bytes as can be written without waiting; -1 with errno as write.
  ssize_t some() {
    const char* data = bytes.data() + sent;
    const std::size_t size = bytes.size() - sent;
    switch (kind) {
      case Kind::file:
      case Kind::thread:
      case Kind::closed:
        break;
      case Kind::reopened:
        return ::write(own.get(), data, size);
      case Kind::socket:
        return ::send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
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
        if (n == 0) continue;
        within_line = bytes[sent - 1] != '\n';
        full = false;
        ours = 0;
      } else if (disk_is_full(errno)) {
        const int error = errno;
        drop();
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
        close();
        if (high && handlers.drained) handlers.drained();  // nobody waits for a reader that is gone
        return handlers.moved();
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
    handlers.moved();
  }

  void drop() {
    lost += bytes.size() - sent - ours;
    bytes.clear();
    sent = ours = 0;
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
  FileThreads& files;
  FileThreads::File file{};
  std::unique_ptr<FileThread> thread;  // our own
  std::string bytes;
  std::size_t sent = 0, lost = 0;
  std::size_t ours = 0;  // of what waits: it ends a line that was cut
  bool waiting = false, gone = false;
  bool full = false, within_line = false;
};

Writer::Writer(io::Loop& loop, FileThreads& files, int fd, std::string name, Handlers handlers)
    : state_(std::make_shared<State>(loop, files, fd, std::move(name), std::move(handlers))) {}
Writer::~Writer() { state_->handlers = {}; }

void Writer::write(std::string_view bytes) {
  if (state_->is_file()) return FileThreads::write(state_->file, bytes);
  std::string copy(bytes);
  take(copy);
}

void Writer::take(std::string& bytes) {
  if (bytes.empty()) return;
  if (state_->kind == Kind::closed && !std::exchange(state_->full, true)) state_->handlers.full(EBADF);
  if (state_->gone || state_->kind == Kind::closed) {
    state_->lost += bytes.size();
    return bytes.clear();
  }
  if (state_->is_file()) return FileThreads::take(state_->file, bytes);
  if (state_->full && state_->within_line && state_->bytes.empty()) {
    state_->bytes = "\n";
    state_->ours = 1;
  }
  if (state_->bytes.empty())
    state_->bytes.swap(bytes);
  else
    state_->bytes += bytes;
  bytes.clear();
  if (!state_->waiting) state_->push();
}

std::size_t Writer::backlog() const {
  return state_->thread ? state_->thread->backlog() : state_->bytes.size() - state_->sent;
}
std::size_t Writer::lost() const { return state_->lost + (state_->thread ? state_->thread->lost() : 0); }
bool Writer::closed() const { return state_->gone; }
bool Writer::has_no_reader() const {
  pollfd end{state_->fd, 0, 0};
  return state_->gone || (state_->kind != Kind::closed && ::poll(&end, 1, 0) == 1 &&
                          (end.revents & (POLLERR | POLLHUP)) != 0);
}
bool Writer::usable() const { return !state_->gone && state_->kind != Kind::closed; }
bool Writer::idle() const { return state_->thread ? state_->thread->idle() : backlog() == 0; }

void Writer::give_up() {
  if (state_->thread) {
    state_->thread->give_up();
  } else if (backlog() > 0) {
    state_->drop();
    state_->full = true;
  }
}

}  // namespace trainrun::output
