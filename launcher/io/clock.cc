#include "launcher/io/clock.h"

#include <algorithm>
#include <mutex>

#include "launcher/io/beat.h"
#include "launcher/io/stops.h"

namespace trainrun::io {
namespace {

constexpr Duration most_late = milliseconds(500);

struct Clock {
  std::mutex guard;
  bool beats = false;
  Instant alive{};  // real: a process that runs is seen by then
  Stops stops;
};

Clock& clock() {
  static Clock one;
  return one;
}

// With the guard held. Whoever comes first after a stop finds it: what waits in the loop runs in any order.
void notice(Clock& it, Instant real) {
  if (!it.beats) return;
  if (real - it.alive > most_late) it.stops.add(it.alive, real);
  it.alive = std::max(it.alive, real);
}

}  // namespace

Instant real_now() { return std::chrono::steady_clock::now(); }

Instant running_now() {
  auto& it = clock();
  const std::lock_guard lock(it.guard);
  const auto real = real_now();
  notice(it, real);
  return it.stops.running(real);
}

Instant running_at(Instant real) {
  auto& it = clock();
  const std::lock_guard lock(it.guard);
  return it.stops.running(real);
}

Instant real_at(Instant running) {
  auto& it = clock();
  const std::lock_guard lock(it.guard);
  return it.stops.real(running);
}

std::pair<Instant, Instant> last_stop() {
  auto& it = clock();
  const std::lock_guard lock(it.guard);
  notice(it, real_now());
  return it.stops.last();
}

void beat(Duration until_next) {
  auto& it = clock();
  const std::lock_guard lock(it.guard);
  const auto real = real_now();
  notice(it, real);
  it.beats = true;
  it.alive = real + until_next;
}

void stood_still(Instant from) {
  auto& it = clock();
  const std::lock_guard lock(it.guard);
  if (!it.beats) return;
  const auto real = real_now();
  it.stops.add(from, real);
  it.alive = std::max(it.alive, real);
}

void forget_stops() {
  auto& it = clock();
  const std::lock_guard lock(it.guard);
  it.beats = false;
  it.stops = {};
}

}  // namespace trainrun::io
