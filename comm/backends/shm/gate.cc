#include "comm/backends/shm/gate.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace trainrun::comm {
namespace {

using std::chrono::steady_clock;

constexpr std::uint32_t over = 1;  // bit of GateWords::bell
constexpr std::uint32_t one_ring = 2;
constexpr auto spin_for = std::chrono::microseconds(50);
constexpr int looks_between_clocks = 64;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// The word lies in memory of several processes, so none of the private variants.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, steady_clock::duration within) {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(within);
  timespec time{};
  time.tv_sec = static_cast<std::time_t>(whole.count());
  time.tv_nsec = static_cast<long>(std::chrono::nanoseconds(within - whole).count());
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, expected, &time, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

Moved aborted() { return tl::unexpected(Broken{"aborted"}); }

}  // namespace

// `next`: the ranks before it are known to have come. A rank's word cannot go beyond this step before this
// rank has ended the next one, so it is equal once the rank has come, also where numbers wrap.
bool Gate::all_have_come(std::uint32_t& next) const {
  while (next < ranks_ && header(next, step_ - 1).arrived.load() == step_) ++next;
  return next == ranks_;
}

Moved Gate::pass(Deadline deadline) {
  if ((words_.bell.load(std::memory_order_relaxed) & over) != 0) return aborted();
  if (faults_) static_cast<void>(fault::point("comm.come"));
  auto& own = header(rank_, step_);
  ++step_;
  own.arrived.store(step_);
  if (faults_) static_cast<void>(fault::point("comm.wait"));
  const auto passed = await_all(deadline);
  if (faults_) static_cast<void>(fault::point("comm.past"));
  return passed;
}

Moved Gate::await_all(Deadline deadline) {
  std::uint32_t next = 0;
  if (all_have_come(next)) {
    // The last to come, or one of those who were at the same time. Who goes to sleep is counted before it
    // looks for the last time: either it sees all words, or is seen here.
    if (words_.sleepers.load() != 0) {
      words_.bell.fetch_add(one_ring);
      futex_wake_all(words_.bell);
    }
    return {};
  }
  if (look_for_a_while(next)) return {};
  return sleep(next, deadline);
}

bool Gate::look_for_a_while(std::uint32_t& next) const {
  const auto until = steady_clock::now() + spin_for;
  do {
    // Where ranks share cores, this one is given to another, which may be the one that is awaited.
    if (!spins_) ::sched_yield();
    for (int i = 0; i < (spins_ ? looks_between_clocks : 1); ++i) {
      if (all_have_come(next)) return true;
      pause();
    }
    if ((words_.bell.load(std::memory_order_relaxed) & over) != 0) return false;
  } while (steady_clock::now() < until);
  return false;
}

Moved Gate::sleep(std::uint32_t& next, Deadline deadline) {
  words_.sleepers.fetch_add(1);
  Moved moved;
  for (;;) {
    const auto bell = words_.bell.load();
    if (all_have_come(next)) break;
    if ((bell & over) != 0) {
      moved = aborted();
      break;
    }
    const auto left = deadline - steady_clock::now();
    if (left <= steady_clock::duration::zero()) {
      moved = tl::unexpected(Broken{"not all ranks came in time"});
      break;
    }
    futex_wait(words_.bell, bell, left);
  }
  words_.sleepers.fetch_sub(1);
  return moved;
}

void Gate::abort() {
  words_.bell.fetch_or(over);
  futex_wake_all(words_.bell);
}

}  // namespace trainrun::comm
