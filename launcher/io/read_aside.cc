#include "launcher/io/read_aside.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace trainrun::io {

struct ReadAside::Shared {
  std::mutex mutex;
  bool over = false;  // the loop may be gone
};

ReadAside::ReadAside() : shared_(std::make_shared<Shared>()) {}

ReadAside::~ReadAside() {
  const std::lock_guard lock(shared_->mutex);
  shared_->over = true;
}

int ReadAside::start(Loop& loop, int fd, std::size_t most, std::optional<off_t> at,
                     std::function<void(std::string bytes, int error)> done) {
  const auto work = [shared = shared_, &loop, fd, most, at, done = std::move(done)] {
    std::string bytes(most, '\0');
    const ssize_t n =
        at ? ::pread(fd, bytes.data(), bytes.size(), *at) : ::read(fd, bytes.data(), bytes.size());
    const int error = n < 0 ? errno : 0;
    bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    const std::lock_guard lock(shared->mutex);
    if (shared->over) return;
    loop.post([shared, done, bytes = std::move(bytes), error]() mutable {
      if (!shared->over) done(std::move(bytes), error);
    });
  };
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the loop's
  int failed = 0;
  try {
    std::thread(work).detach();
  } catch (const std::system_error& why) {
    failed = why.code().value();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return failed;
}

}  // namespace trainrun::io
