#include "launcher/output/file_thread.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/base/fault.h"
#include "launcher/base/strings.h"
#include "launcher/output/writer.h"

namespace trainrun::output {
namespace {

constexpr std::size_t piece_size = 256u << 10;  // many short lines become one write

}  // namespace

// Shared with the thread. What is not marked otherwise is guarded by `mutex`.
struct FileThread::State {
  struct Target {
    Fd own;
    int fd = -1;
    std::string name;
    Failed failed;                      // the loop's alone
    std::size_t waiting = 0, lost = 0;  // bytes
    bool within_line = false;           // the thread's alone, as what follows
    int why_full = 0;                   // errno, as long as nothing could be written
    std::size_t missing = 0;            // bytes, of which nothing in the file tells yet
  };
  struct Piece {
    Target* target = nullptr;
    std::string bytes{};
    std::function<std::string()> work{};
  };

  State(std::function<void()> to_tell, std::size_t most) : tell_loop(std::move(to_tell)), step(most) {}

  void run();
  void put(std::unique_lock<std::mutex>& lock, Piece& piece);
  void tell();
  bool start(const std::shared_ptr<State>& self);

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Target> targets;  // they stay where they are
  std::deque<Piece> queue;
  std::vector<std::pair<Target*, int>> failures;
  std::vector<std::string> said;
  std::string spare;  // empty, with the room of what was written
  std::size_t waiting = 0, lost = 0;
  std::uint64_t moved = 0;  // grows as long as the thread gets on
  std::string current;      // the name of the file that is written to
  bool busy = false, told = false, ended = false;
  std::function<void()> tell_loop;  // not when ended: the loop may be gone
  const std::size_t step;
  std::thread thread;  // the loop's alone
};

bool FileThread::State::start(const std::shared_ptr<State>& self) {
  if (thread.joinable()) return true;
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the loop's
  try {
    thread = std::thread([self] { self->run(); });
  } catch (const std::system_error&) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread.joinable();
}

void FileThread::State::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    while (!ended && queue.empty()) changed.wait(lock);
    if (ended) return;
    auto piece = std::move(queue.front());
    queue.pop_front();
    busy = true;
    if (piece.target != nullptr) {
      put(lock, piece);
    } else {
      lock.unlock();
      auto line = piece.work();
      lock.lock();
      if (!line.empty()) said.push_back(std::move(line));
    }
    busy = false;
    piece.bytes.clear();
    if (piece.bytes.capacity() <= 2 * piece_size) spare = std::move(piece.bytes);
    ++moved;
    tell();
    changed.notify_all();
  }
}

void FileThread::State::put(std::unique_lock<std::mutex>& lock, Piece& piece) {
  auto& target = *piece.target;
  current = target.name;
  auto counted = piece.bytes.size();
  const auto pay = [&](std::size_t bytes) {
    bytes = std::min(bytes, counted);
    counted -= bytes;
    waiting -= bytes;
    target.waiting -= bytes;
    moved += bytes;
  };
  // Where something is missing the file says so, on a line of its own.
  std::string mark;
  if (target.missing > 0)
    mark = fmt::format("{}trainrun: {} missing here: {}\n", target.within_line ? "\n" : "",
                       target.missing == 1 ? "1 byte is" : fmt::format("{} bytes are", target.missing),
                       errno_text(target.why_full));
  auto ours = mark.size();
  piece.bytes.insert(0, mark);
  std::string_view left = piece.bytes;
  while (!left.empty()) {
    std::size_t written = 0;
    lock.unlock();
    int error = fault::point("output.file").value_or(0);
    const ssize_t n = error != 0 ? -1 : ::write(target.fd, left.data(), std::min(left.size(), step));
    if (n <= 0 && error == 0) error = n < 0 ? errno : EIO;
    if (error == EAGAIN) {  // somebody who shares it has made it so
      pollfd ready{target.fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    }
    if (n > 0) {
      target.within_line = left[static_cast<std::size_t>(n) - 1] != '\n';
      const auto of_mark = std::min(ours, static_cast<std::size_t>(n));
      ours -= of_mark;
      written = static_cast<std::size_t>(n) - of_mark;
      if (ours == 0) target.missing = 0;
      target.why_full = 0;
      left.remove_prefix(static_cast<std::size_t>(n));
    }
    lock.lock();
    if (ended) return;
    if (n > 0) {
      pay(written);
      tell();
    } else if (error != EINTR && error != EAGAIN) {
      lost += counted;
      target.lost += counted;
      target.missing += counted;
      if (std::exchange(target.why_full, error) == 0) failures.emplace_back(&target, error);
      break;
    }
  }
  pay(counted);
}

void FileThread::State::tell() {
  if (ended || std::exchange(told, true)) return;
  tell_loop();
}

FileThread::FileThread(io::Loop& loop, Handlers handlers, Duration stalls_after, std::size_t step)
    : loop_(loop),
      handlers_(std::move(handlers)),
      self_(std::make_shared<FileThread*>(this)),
      stall_(stalls_after),
      step_(step),
      watch_(loop) {
  state_ = std::make_shared<State>(
      [&loop, weak = std::weak_ptr(self_)] {
        loop.post([weak] {
          if (const auto self = weak.lock()) (*self)->happened();
        });
      },
      step_);
}

FileThread::~FileThread() { leave_thread(); }

// A thread that hangs in a write is not waited for.
void FileThread::leave_thread() {
  auto& state = *state_;
  std::unique_lock lock(state.mutex);
  state.ended = true;
  const bool hangs = state.busy;
  state.changed.notify_all();
  lock.unlock();
  if (!state.thread.joinable()) return;
  if (hangs)
    state.thread.detach();
  else
    state.thread.join();
}

FileThread::File FileThread::add(int fd, std::string name, Failed failed) {
  const std::lock_guard lock(state_->mutex);
  auto& target = state_->targets.emplace_back();
  target.fd = fd;
  target.name = std::move(name);
  target.failed = std::move(failed);
  return state_->targets.size() - 1;
}

FileThread::File FileThread::add(Fd fd, std::string name, Failed failed) {
  const auto file = add(fd.get(), std::move(name), std::move(failed));
  state_->targets[file].own = std::move(fd);
  return file;
}

void FileThread::write(File file, std::string_view bytes) {
  std::string copy(bytes);
  take(file, copy);
  state_->changed.notify_all();
}

void FileThread::take(File file, std::string& bytes) {
  if (bytes.empty()) return;
  auto& state = *state_;
  if (!state.start(state_)) {  // a limit on processes: better to wait for the file than to be silent
    std::unique_lock lock(state.mutex);
    State::Piece piece{&state.targets[file], std::exchange(bytes, {}), {}};
    piece.target->waiting += piece.bytes.size();
    state.waiting += piece.bytes.size();
    state.put(lock, piece);
    return state.tell();
  }
  {
    const std::lock_guard lock(state.mutex);
    auto& target = state.targets[file];
    target.waiting += bytes.size();
    state.waiting += bytes.size();
    auto* last = state.queue.empty() ? nullptr : &state.queue.back();
    if (last != nullptr && last->target == &target && last->bytes.size() + bytes.size() <= piece_size) {
      last->bytes += bytes;
    } else {
      state.queue.push_back({&target, std::move(bytes), {}});
      bytes = std::move(state.spare);
    }
    bytes.clear();
    high_ = high_ || state.waiting > Writer::low_water;
  }
  wake();
  if (watch_.armed()) return;
  seen_ = ~std::uint64_t{0};
  look();
}

void FileThread::wake() {
  if (std::exchange(wakes_, true)) return;
  loop_.post([weak = std::weak_ptr(self_)] {
    const auto self = weak.lock();
    if (!self) return;
    (*self)->wakes_ = false;
    (*self)->state_->changed.notify_all();
  });
}

void FileThread::later(std::function<std::string()> work) {
  if (!state_->start(state_)) return;
  const std::lock_guard lock(state_->mutex);
  state_->queue.push_back({nullptr, {}, std::move(work)});
  state_->changed.notify_all();
}

std::size_t FileThread::backlog() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting;
}

std::size_t FileThread::lost() const {
  const std::lock_guard lock(state_->mutex);
  return lost_before_ + state_->lost;
}

std::vector<FileThread::Loss> FileThread::losses() const {
  std::vector<Loss> all;
  const std::lock_guard lock(state_->mutex);
  for (const auto& target : state_->targets)
    if (target.lost > 0) all.push_back({target.name, target.lost});
  return all;
}

bool FileThread::idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.empty() && !state_->busy && !state_->told;
}

// The thread has written something, or could not.
void FileThread::happened() {
  std::vector<std::pair<State::Target*, int>> failures;
  std::vector<std::string> said;
  std::size_t waiting = 0;
  {
    const std::lock_guard lock(state_->mutex);
    state_->told = false;
    failures.swap(state_->failures);
    said.swap(state_->said);
    waiting = state_->waiting;
  }
  if (waiting == 0) watch_.disarm();
  for (const auto& [target, error] : failures) target->failed(error);
  for (const auto& line : said) handlers_.said(line);
  if (high_ && waiting <= Writer::low_water) {
    high_ = false;
    handlers_.drained();
  }
  handlers_.moved();
}

void FileThread::look() {
  std::string name;
  std::uint64_t moved = 0;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->waiting == 0) return;
    moved = state_->moved;
    name = state_->current;
  }
  if (std::exchange(seen_, moved) == moved && !std::exchange(told_, true)) handlers_.stalled(name, stall_);
  watch_.arm(io::Loop::now() + stall_, [this] { look(); });
}

FileThread::Left FileThread::give_up() {
  watch_.disarm();
  leave_thread();  // from here on nothing is counted any more
  Left left;
  {
    const std::lock_guard lock(state_->mutex);
    left.bytes = state_->waiting;
    for (const auto& target : state_->targets) {
      if (target.waiting == 0) continue;
      left.name = target.name;
      break;
    }
  }
  lost_before_ = lost() + left.bytes;
  const auto before = std::exchange(state_, std::make_shared<State>(state_->tell_loop, step_));
  const std::lock_guard lock(before->mutex);
  for (auto& target : before->targets) {
    auto& again = state_->targets.emplace_back();
    again.fd = target.own ? -1 : target.fd;
    again.name = target.name;
    again.lost = target.lost + target.waiting;
    again.failed = target.failed;
  }
  return left;
}

}  // namespace trainrun::output
