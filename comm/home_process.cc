#include "comm/home_process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

namespace trainrun::comm {
namespace {

// The number of this process, on a page that is zeros in a forked child. Null where the kernel has no such
// pages.
std::atomic<pid_t>* own_number() {
  static auto* const page = []() -> std::atomic<pid_t>* {
    constexpr std::size_t bytes = 4096;
    void* const made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return nullptr;
    if (::madvise(made, bytes, MADV_WIPEONFORK) == 0) return static_cast<std::atomic<pid_t>*>(made);
    ::munmap(made, bytes);
    return nullptr;
  }();
  return page;
}

}  // namespace

HomeProcess::HomeProcess() : pid_(::getpid()) {
  if (auto* const number = own_number()) number->store(pid_, std::memory_order_relaxed);
}

bool HomeProcess::here() const {
  const auto* const number = own_number();
  return (number != nullptr ? number->load(std::memory_order_relaxed) : ::getpid()) == pid_;
}

}  // namespace trainrun::comm
