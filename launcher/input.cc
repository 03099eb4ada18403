#include "launcher/input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "launcher/io/shared_wait.h"

namespace trainrun {

namespace {
// No event says that a background process group came to the foreground.
constexpr Duration foreground_check = seconds(1);

bool in_foreground() { return ::isatty(STDIN_FILENO) == 0 || ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }
}  // namespace

struct Input::Source {
  explicit Source(io::Loop& loop) : ready(loop) {}
  io::SharedWait ready;
  bool waiting = false, ended = false;
};

Input::Input(io::Loop& loop, std::function<void(WorkerId, const std::string&, bool)> give)
    : loop_(loop), give_(std::move(give)), source_(std::make_unique<Source>(loop)), background_(loop) {}
Input::~Input() = default;

bool Input::can_be_inherited() {
  struct stat info {};
  return ::fstat(STDIN_FILENO, &info) == 0 && ::isatty(STDIN_FILENO) == 0;
}

void Input::add(WorkerId worker) { windows_[worker] = 0; }

void Input::remove(WorkerId worker) {
  windows_.erase(worker);
  look();
}

void Input::wanted(WorkerId worker, std::uint32_t bytes) {
  const auto it = windows_.find(worker);
  if (it == windows_.end()) return;
  if (bytes == 0) return remove(worker);  // it closed its stdin, which must not hold up the others
  if (source_->ended) return give_(worker, {}, true);  // a rank of a later generation
  it->second += bytes;
  look();
}

void Input::look() {
  if (source_->waiting || source_->ended || windows_.empty()) return;
  if (std::any_of(windows_.begin(), windows_.end(), [](const auto& it) { return it.second == 0; })) return;
  if (!in_foreground()) {
    background_.arm(io::Loop::now() + foreground_check, [this] { look(); });
    return;
  }
  struct stat info {};
  if (::fstat(STDIN_FILENO, &info) != 0) return finish();  // we were started without a stdin
  const int error = source_->ready.wait(STDIN_FILENO, io::SharedWait::For::reading, [this] { read(); });
  if (error != 0 && error != EPERM) {  // no descriptor is free
    background_.arm(io::Loop::now() + foreground_check, [this] { look(); });
    return;
  }
  source_->waiting = true;
  if (error == EPERM) loop_.post([this] { read(); });  // a file or /dev/null: its read never blocks
}

void Input::read() {
  source_->waiting = false;
  if (windows_.empty()) return;
  if (!in_foreground()) return look();
  std::uint64_t most = 65536;
  for (const auto& [worker, window] : windows_) most = std::min(most, window);
  std::string bytes(most, '\0');
  const ssize_t n = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return look();
  if (n <= 0) return finish();
  bytes.resize(static_cast<std::size_t>(n));
  for (auto& [worker, window] : windows_) {
    window -= static_cast<std::uint64_t>(n);
    give_(worker, bytes, false);
  }
  look();
}

void Input::finish() {
  source_->ended = true;
  for (const auto& [worker, window] : windows_) give_(worker, {}, true);
}

}  // namespace trainrun
