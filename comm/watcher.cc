#include "comm/watcher.h"

#include <utility>

#include "rendezvous/protocol.h"

namespace trainrun::comm {

Watcher::Watcher(rendezvous::Client client, std::function<void()> on_news)
    : client_(std::move(client)), on_news_(std::move(on_news)), thread_([this] { run(); }) {}

void Watcher::run() {
  auto news = client_.watch(milliseconds(rendezvous::max_wait_ms));
  while (!news && news.error().kind == rendezvous::FailureKind::timeout)
    news = client_.watch(milliseconds(rendezvous::max_wait_ms));
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (news) {
      verdict_ = failure_of(*news);
    } else {
      verdict_ = failure_of(news.error());
      verdict_->status = TRC_ABORTED;  // without the server nobody can tell who lives: the job is over
    }
  }
  news_.notify_all();
  on_news_();
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
  news_.wait_for(lock, within, [this] { return verdict_.has_value(); });
  return verdict_;
}

std::optional<Failure> Watcher::verdict() const {
  const std::lock_guard lock(mutex_);
  return verdict_;
}

}  // namespace trainrun::comm
