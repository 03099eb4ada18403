#include "launcher/io/turn.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "launcher/base/fd.h"
#include "launcher/io/clock.h"

namespace trainrun::io {
namespace {

struct Sample {
  Instant at;
  Duration cpu{}, queued{};  // queued: ready to run, and another ran
  std::int64_t waits = 0;    // how often it gave the processor up to wait for something
};

bool on = false, within = false;
Fd queue_times;  // "ran waited slices", in nanoseconds
Sample begun;
Turn::Longest worst;

Sample sample() {
  Sample now;
  now.at = real_now();
  timespec cpu{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  now.cpu = std::chrono::seconds(cpu.tv_sec) + std::chrono::nanoseconds(cpu.tv_nsec);
  char text[128] = {};
  if (queue_times && ::pread(queue_times.get(), text, sizeof text - 1, 0) > 0) {
    char* rest = text;
    std::strtoull(rest, &rest, 10);
    now.queued = std::chrono::nanoseconds(std::strtoull(rest, &rest, 10));
  }
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  now.waits = usage.ru_nvcsw;
  return now;
}

}  // namespace

void Turn::measure() {
  queue_times = Fd(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  on = true;
}

Turn::Longest Turn::longest() { return worst; }

void Turn::leave_out(Duration stop) { begun.at += stop; }

Turn::Turn() : outermost_(on && !within) {
  if (!outermost_) return;
  within = true;
  begun = sample();
}

Turn::~Turn() {
  if (!outermost_) return;
  within = false;
  ++worst.turns;
  const auto ended = sample();
  const auto cpu = ended.cpu - begun.cpu;
  const auto calls = ended.waits - begun.waits;
  auto blocked = Duration::zero();
  if (calls > 0) blocked = std::max(blocked, ended.at - begun.at - cpu - (ended.queued - begun.queued));
  if (cpu + blocked > worst.cpu + worst.blocked) worst = {worst.turns, cpu, blocked, calls};
}

}  // namespace trainrun::io
