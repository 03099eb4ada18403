#include "comm/watcher.h"

#include <utility>

namespace trainrun::comm {
namespace {

constexpr Duration pulse_every = seconds(1);

}  // namespace

Watcher::Watcher(rendezvous::Client client, Rank rank, std::function<Group::Progress()> progress,
                 std::function<void()> on_end)
    : client_(std::move(client)),
      rank_(rank),
      progress_(std::move(progress)),
      on_end_(std::move(on_end)),
      thread_([this] { run(); }) {}

Failure Watcher::listen() {
  std::uint32_t seen = 0;
  std::uint64_t told = 0;
  for (;;) {
    const auto heard = client_.hear(rank_, seen, pulse_every);
    if (!heard && heard.error().kind != rendezvous::FailureKind::timeout) {
      auto failure = failure_of(heard.error());
      failure.status = TRC_ABORTED;  // without the server nobody can tell who lives: the world is over
      return failure;
    }
    if (!heard) {
      // A rank that is stuck in one operation makes no progress, and says nothing.
      const auto progress = progress_();
      if (std::exchange(told, progress.mark) != progress.mark)
        static_cast<void>(
            client_.pulse(rank_, name_of(progress.call), progress.sequence(), progress.in_operation()));
    } else if (const auto* notice = std::get_if<rendezvous::Notice>(&*heard)) {
      seen = notice->number;
      const std::lock_guard lock(mutex_);
      notices_.change = notices_.change || notice->change != rendezvous::Change::none;
      notices_.stop = notices_.stop || notice->stop;
      notices_.text = notice->text;
    } else {
      return failure_of(std::get<rendezvous::Verdict>(*heard));
    }
  }
}

void Watcher::run() {
  auto end = listen();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    verdict_ = std::move(end);
  }
  end_.notify_all();
  on_end_();
}

void Watcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
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
