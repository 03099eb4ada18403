#include "comm/work.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <system_error>

namespace trainrun::comm {

Outcome<std::shared_ptr<Completions>> Completions::make() {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return fail(TRC_INTERNAL, "cannot make an eventfd: " + std::generic_category().message(errno));
  return std::shared_ptr<Completions>(new Completions(std::move(event)));
}

void Completions::add(std::uint64_t tag) {
  const std::lock_guard lock(mutex_);
  ended_.push_back(tag);
  const std::uint64_t one = 1;
  // It is 1 at most, so this never has to wait.
  if (ended_.size() == 1) static_cast<void>(!::write(event_.get(), &one, sizeof one));
}

std::optional<std::uint64_t> Completions::next() {
  const std::lock_guard lock(mutex_);
  if (ended_.empty()) return std::nullopt;
  const auto tag = ended_.front();
  ended_.pop_front();
  std::uint64_t count = 0;
  if (ended_.empty()) static_cast<void>(!::read(event_.get(), &count, sizeof count));
  return tag;
}

void Work::run() {
  {
    const std::lock_guard lock(mutex_);
    times_.begun = std::chrono::steady_clock::now().time_since_epoch();
  }
  try {
    end(run_());
  } catch (const std::exception& error) {
    end(fail(TRC_INTERNAL, error.what()));
  }
}

void Work::end(Outcome<void> outcome) {
  {
    const std::lock_guard lock(mutex_);
    outcome_ = std::move(outcome);
    if (times_.begun.count() != 0) times_.ended = std::chrono::steady_clock::now().time_since_epoch();
    end_.notify_all();
  }
  if (completions_) completions_->add(tag_);
}

Work::Times Work::times() const {
  const std::lock_guard lock(mutex_);
  return times_;
}

bool Work::ended() const {
  const std::lock_guard lock(mutex_);
  return outcome_.has_value();
}

std::optional<Outcome<void>> Work::wait(std::optional<Duration> within) {
  std::unique_lock lock(mutex_);
  const auto has_ended = [&] { return outcome_.has_value(); };
  if (within)
    end_.wait_for(lock, *within, has_ended);
  else
    end_.wait(lock, has_ended);
  return outcome_;
}

}  // namespace trainrun::comm
