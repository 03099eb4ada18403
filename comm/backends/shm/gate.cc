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

constexpr std::uint32_t over = 1;  // bit of GateWords::turn
constexpr std::uint32_t one_step = 2;
constexpr auto spin_for = std::chrono::microseconds(50);
constexpr int looks_between_clocks = 64;
constexpr int yields = 8;  // each gives the core to somebody else who may be the one that is awaited

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

// Numbers of steps wrap, so they are compared by their distance.
bool Gate::settled(std::uint32_t turn, std::uint32_t goal) const {
  return (turn & over) != 0 || static_cast<std::int32_t>(turn - goal) >= 0;
}

Moved Gate::pass(Deadline deadline) {
  if ((words_.turn.load() & over) != 0) return aborted();
  ++step_;
  const std::uint32_t goal = step_ * one_step;
  if (words_.arrived.fetch_add(1) + 1 == step_ * ranks_) {
    // A sleeper that is not counted yet looks at `turn` once more before it sleeps.
    words_.turn.fetch_add(one_step);
    if (words_.sleepers.load() != 0) futex_wake_all(words_.turn);
    return {};
  }
  if (!look_for_a_while(goal))
    if (auto slept = sleep(goal, deadline); !slept) return slept;
  const auto turn = words_.turn.load();
  if (static_cast<std::int32_t>((turn & ~over) - goal) >= 0) return {};
  return aborted();
}

bool Gate::look_for_a_while(std::uint32_t goal) const {
  if (!spins_) {
    for (int i = 0; i < yields; ++i) {
      if (settled(words_.turn.load(std::memory_order_acquire), goal)) return true;
      ::sched_yield();
    }
    return false;
  }
  const auto until = steady_clock::now() + spin_for;
  do {
    for (int i = 0; i < looks_between_clocks; ++i) {
      if (settled(words_.turn.load(std::memory_order_acquire), goal)) return true;
      pause();
    }
  } while (steady_clock::now() < until);
  return false;
}

Moved Gate::sleep(std::uint32_t goal, Deadline deadline) {
  words_.sleepers.fetch_add(1);
  Moved moved;
  for (;;) {
    const auto turn = words_.turn.load();
    if (settled(turn, goal)) break;
    const auto left = deadline - steady_clock::now();
    if (left <= steady_clock::duration::zero()) {
      moved = tl::unexpected(Broken{"not all ranks came in time"});
      break;
    }
    futex_wait(words_.turn, turn, left);
  }
  words_.sleepers.fetch_sub(1);
  return moved;
}

void Gate::abort() {
  words_.turn.fetch_or(over);
  futex_wake_all(words_.turn);
}

}  // namespace trainrun::comm
