#include "comm/watcher.h"

#include <algorithm>
#include <utility>

#include "comm/quiet_threads.h"

namespace trainrun::comm {
namespace {

constexpr Duration pulse_every = seconds(1);
// Who has come to wait in an operation says so sooner: another one whose time passes now is to know it.
constexpr Duration look_every = milliseconds(100);
// Until the first one: a world that gets on and falls soon after has got on.
constexpr Duration first_pulse_within = milliseconds(50);
// A wait that ends so much later than it should: the process stood still (^Z, SIGSTOP, a frozen group).
constexpr Duration stop_shows_from = seconds(1);
constexpr Duration shut_again_after = milliseconds(20), shut_whole_after = milliseconds(500);

}  // namespace

Watcher::Watcher(rendezvous::Client client, const rendezvous::World& world, Rank rank, Groups& groups)
    : client_(std::move(client)), world_(world), rank_(rank), groups_(groups) {
  const QuietThreads quiet;
  thread_ = std::thread([this] { run(); });
}

Failure Watcher::listen() {
  // An operation, by its group and mark.
  using Place = std::pair<std::uint32_t, std::uint64_t>;
  Instant last_pulse{};
  Place looked_at{}, told{};
  std::uint32_t seen = 0;
  bool told_inside = false, told_operation = false;  // one that is more than to connect
  rendezvous::Pulse said{rank_.value, "", 0, false, rendezvous::Pulse::all_ranks, 0, 0};
  Instant said_at = std::chrono::steady_clock::now();
  const auto say = [&](rendezvous::Pulse pulse, Instant now) {
    static_cast<void>(client_.pulse(pulse));
    said = std::move(pulse);
    said_at = now;
  };
  for (;;) {
    const auto before = std::chrono::steady_clock::now();
    const auto within = std::min(told_operation ? look_every : first_pulse_within, groups_.time_left(before));
    const auto heard = client_.hear(rank_, seen, within);
    if (!heard && heard.error().kind != rendezvous::FailureKind::timeout) {
      auto failure = failure_of(heard.error());
      failure.status = TRC_ABORTED;  // without the server nobody can tell who lives: the world is over
      return failure;
    }
    const auto now = std::chrono::steady_clock::now();
    const auto late = now - before - within;
    groups_.look_at_time(now, late > stop_shows_from ? late : Duration::zero());
    const auto progress = groups_.progress();
    const Place place{progress.number, progress.mark};
    const bool has_come_to_wait =
        std::exchange(looked_at, place) == place && progress.in_operation() && place != told;
    const bool first = !told_operation && progress.sequence() > 0;
    if (!heard) {
      if (!has_come_to_wait && !first && told.second != 0 && now - last_pulse < pulse_every) continue;
      last_pulse = now;
      if (first) tell_backend();
      told_operation = told_operation || first;
      // A rank that waits in an operation says so again and again: others whose time passes first know then
      // that it is not the one they wait for. It also says that it has come out: else the launcher would
      // believe that it waits there for ever, or is behind the others.
      const bool moved = std::exchange(told, place) != place;
      const bool has_come_out =
          std::exchange(told_inside, progress.in_operation()) && !progress.in_operation();
      if (moved || progress.in_operation() || has_come_out)
        say({rank_.value, progress.operation, progress.sequence(), progress.in_operation(), progress.number,
             progress.bytes, progress.members},
            now);
      if (steps_.counted() && !progress.in_operation())
        if (const auto step = steps_.pulse())
          say({rank_.value, step->what, step->number, step->odd, rendezvous::Pulse::steps, 0, 0}, now);
      // The same again says only that this process runs.
      if (now - said_at >= pulse_every) say(said, now);
    } else if (const auto* notice = std::get_if<rendezvous::Notice>(&*heard)) {
      seen = notice->number;
      if (notice->left && *notice->left < world_.members.size())
        return failure_of_leaver(world_.members[*notice->left]);
      const std::lock_guard lock(mutex_);
      notices_.change = notices_.change || notice->change != rendezvous::Change::none;
      notices_.stop = notices_.stop || notice->stop;
      notices_.text = notice->text;
    } else {
      return failure_of(std::get<rendezvous::Verdict>(*heard));
    }
  }
}

// Once, for people.
void Watcher::tell_backend() {
  if (rank_.value != 0) return;
  static_cast<void>(client_.pulse(
      {0, std::string("connected over ") + groups_.backend(), 0, false, rendezvous::Pulse::all_ranks, 0, 0}));
}

void Watcher::run() {
  auto end = listen();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    verdict_ = std::move(end);
  }
  end_.notify_all();
  foreign_.shut();
  groups_.abort();
  errands_.interrupt();
  keep_shutting();
}

void Watcher::keep_shutting() {
  const auto whole_from = std::chrono::steady_clock::now() + shut_whole_after;
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, shut_again_after, [this] { return stopping_; })) {
    lock.unlock();
    foreign_.shut(std::chrono::steady_clock::now() >= whole_from);
    lock.lock();
  }
}

void Watcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  end_.notify_all();
  client_.interrupt();
  if (thread_.joinable()) thread_.join();
}

std::optional<Failure> Watcher::wait_for_verdict(Duration within) {
  std::unique_lock lock(mutex_);
  end_.wait_for(lock, within, [this] { return verdict_.has_value(); });
  return verdict_;
}

std::optional<Failure> Watcher::verdict() const {
  const std::lock_guard lock(mutex_);
  return verdict_;
}

Watcher::Notices Watcher::notices() const {
  const std::lock_guard lock(mutex_);
  return notices_;
}

}  // namespace trainrun::comm
