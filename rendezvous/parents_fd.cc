#include "rendezvous/parents_fd.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace trainrun::rendezvous {
namespace {

// Never destroyed: a fork may come as late as any thread lives.
class Registry {
 public:
  static Registry& the() {
    static Registry* const registry = new Registry();
    return *registry;
  }
  void add(int fd) {
    const std::lock_guard lock(mutex_);
    fds_.insert(fd);
  }
  void remove(int fd) {
    const std::lock_guard lock(mutex_);
    fds_.erase(fd);
  }

 private:
  // Without handlers a child keeps the copies, which is what happened before there were any.
  Registry() {
    static_cast<void>(::pthread_atfork([] { the().mutex_.lock(); }, [] { the().mutex_.unlock(); },
                                       [] { the().in_child(); }));
  }
  // The objects that own the numbers are still there. They must not close another file of the child's some
  // day.
  void in_child() {
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (const int fd : fds_)
      if (nothing < 0 || ::dup3(nothing, fd, O_CLOEXEC) < 0) ::close(fd);
    if (nothing >= 0) ::close(nothing);
    fds_.clear();
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::set<int> fds_;
};

}  // namespace

ParentsFd::ParentsFd(Fd fd) : fd_(std::move(fd)) { Registry::the().add(fd_.get()); }

ParentsFd::~ParentsFd() {
  if (fd_) Registry::the().remove(fd_.get());
}

}  // namespace trainrun::rendezvous
