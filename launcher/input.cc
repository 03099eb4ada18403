#include "launcher/input.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "launcher/base/fault.h"
#include "launcher/base/fd.h"
#include "launcher/io/read_aside.h"
#include "launcher/io/shared_wait.h"

namespace trainrun {

namespace {
// No event says that a background process group came to the foreground.
constexpr Duration foreground_check = seconds(1);

bool in_foreground() { return ::isatty(STDIN_FILENO) == 0 || ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }
}  // namespace

// That there was something to read says nothing of now: others read the same stdin, and a file's disk may
// stall. So no read of ours may wait on the loop, and our neighbours' descriptor stays as it is (decision
// 0009).
struct Input::Source {
  enum class Kind : std::uint8_t { unknown, none, reopened, socket, aside };
  explicit Source(io::Loop& loop) : ready(loop) {}

  void open() {
    struct stat info {};
    if (::fstat(STDIN_FILENO, &info) != 0) {
      kind = Kind::none;
    } else if (S_ISSOCK(info.st_mode)) {
      kind = Kind::socket;
    } else {
      if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode))
        own = Fd(::open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
      kind = own ? Kind::reopened : Kind::aside;
      file = S_ISREG(info.st_mode);
    }
  }
  [[nodiscard]] int fd() const { return own ? own.get() : STDIN_FILENO; }

  io::SharedWait ready;
  io::ReadAside aside;
  Kind kind = Kind::unknown;
  Fd own;
  // Of a file: where we read, and where our last read has left it. It is moved on only when the bytes are
  // here: a read that is under way when the job ends takes nothing from those who come after us.
  off_t at = -1;
  std::uint64_t taken = 0;
  bool waiting = false, ended = false, file = false;
};

Input::Input(io::Loop& loop, std::function<void(WorkerId, const std::string&, bool)> give)
    : loop_(loop), give_(std::move(give)), source_(std::make_unique<Source>(loop)), background_(loop) {}
Input::~Input() = default;

bool Input::can_be_inherited() {
  struct stat info {};
  return ::fstat(STDIN_FILENO, &info) == 0 && ::isatty(STDIN_FILENO) == 0;
}

void Input::add(WorkerId worker) {
  windows_[worker] = 0;
  parts_[worker] = {source_->taken, source_->taken};
}

void Input::add_newcomer(WorkerId worker) { newcomers_[worker] = 0; }

bool Input::admit(WorkerId worker, bool has_stdin) {
  const auto known = newcomers_.extract(worker);
  if (known.empty()) return false;
  if (!has_stdin) {
    give_(worker, {}, true);
    return true;
  }
  add(worker);
  if (known.mapped() > 0) wanted(worker, static_cast<std::uint32_t>(known.mapped()));
  return true;
}

void Input::remove(WorkerId worker) {
  windows_.erase(worker);
  newcomers_.erase(worker);
  look();
}

void Input::wanted(WorkerId worker, std::uint32_t bytes) {
  auto& readers = newcomers_.contains(worker) ? newcomers_ : windows_;
  const auto it = readers.find(worker);
  if (it == readers.end()) return;
  if (bytes == 0) return remove(worker);  // it closed its stdin, which must not hold up the others
  if (source_->ended) return give_(worker, {}, true);  // a rank of a later generation
  it->second += bytes;
  look();
}

void Input::taken(WorkerId worker, std::uint64_t bytes) {
  const auto known = parts_.extract(worker);
  windows_.erase(worker);  // it has ended
  newcomers_.erase(worker);
  if (known.empty()) return;
  const auto [begin, end] = known.mapped();
  reached_ = std::max(reached_, begin + std::min(bytes, end - begin));
}

std::uint64_t Input::give_back() {
  for (const auto& [worker, part] : parts_) reached_ = std::max(reached_, part.end);  // its host was lost
  parts_.clear();
  windows_.clear();
  const auto left = source_->taken - reached_;
  if (left == 0 || ::isatty(STDIN_FILENO) != 0) return 0;
  // Where another process that has the same file has read too, the place is not ours.
  if (!source_->file || ::lseek(STDIN_FILENO, 0, SEEK_CUR) != source_->at) return left;
  return ::lseek(STDIN_FILENO, source_->at - static_cast<off_t>(left), SEEK_SET) < 0 ? left : 0;
}

void Input::look() {
  if (source_->waiting || source_->ended || windows_.empty()) return;
  if (std::any_of(windows_.begin(), windows_.end(), [](const auto& it) { return it.second == 0; })) return;
  if (!in_foreground()) return later();
  if (source_->kind == Source::Kind::unknown) source_->open();
  if (source_->kind == Source::Kind::none) return finish();  // we were started without a stdin
  const int error = source_->ready.wait(source_->fd(), io::SharedWait::For::reading, [this] { read(); });
  if (error != 0 && error != EPERM) return later();  // no descriptor is free
  source_->waiting = true;
  if (error == EPERM) loop_.post([this] { read(); });  // a file or /dev/null: always ready
}

void Input::later() {
  background_.arm(io::Loop::now() + foreground_check, [this] { look(); });
}

void Input::read() {
  source_->waiting = false;
  if (windows_.empty()) return;
  if (!in_foreground()) return look();
  static_cast<void>(fault::point("launcher.stdin"));
  std::uint64_t most = 65536;
  for (const auto& [worker, window] : windows_) most = std::min(most, window);
  if (source_->kind == Source::Kind::aside) {
    source_->waiting = true;
    std::optional<off_t> at;
    if (source_->file) at = source_->at = ::lseek(STDIN_FILENO, 0, SEEK_CUR);
    const int error =
        source_->aside.start(loop_, STDIN_FILENO, most, at, [this](const std::string& bytes, int why) {
          source_->waiting = false;
          take(bytes, why);
        });
    if (error == 0) return;
    source_->waiting = false;
    return later();  // no thread can be started
  }
  std::string bytes(most, '\0');
  const ssize_t n = source_->kind == Source::Kind::socket
                        ? ::recv(STDIN_FILENO, bytes.data(), bytes.size(), MSG_DONTWAIT)
                        : ::read(source_->fd(), bytes.data(), bytes.size());
  const int error = n < 0 ? errno : 0;
  bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  take(bytes, error);
}

void Input::take(const std::string& bytes, int error) {
  if (error == EINTR || error == EAGAIN || (error == EIO && !in_foreground())) return look();
  if (source_->file) {
    if (windows_.empty()) return;                                          // it ended while that was read
    if (::lseek(STDIN_FILENO, 0, SEEK_CUR) != source_->at) return look();  // somebody else has read it
    source_->at = ::lseek(STDIN_FILENO, static_cast<off_t>(bytes.size()), SEEK_CUR);
  }
  if (bytes.empty()) return finish();
  source_->taken += bytes.size();
  for (auto& [worker, window] : windows_) {
    window -= std::min<std::uint64_t>(window, bytes.size());
    parts_[worker].end = source_->taken;
    give_(worker, bytes, false);
  }
  look();
}

void Input::finish() {
  source_->ended = true;
  for (const auto* readers : {&windows_, &newcomers_})
    for (const auto& [worker, window] : *readers) give_(worker, {}, true);
}

}  // namespace trainrun
