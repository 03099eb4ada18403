#include "launcher/io/loop.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

namespace trainrun::io {

// Concurrency hint 1 keeps the lock (post() comes from other threads) but expects a single thread in run().
Loop::Loop() : context_(std::make_unique<boost::asio::io_context>(1)) {}
Loop::~Loop() = default;

void Loop::run() { context_->run(); }
void Loop::stop() { context_->stop(); }
void Loop::post(std::function<void()> work) { boost::asio::post(*context_, std::move(work)); }
Instant Loop::now() { return std::chrono::steady_clock::now(); }
boost::asio::io_context& Loop::context() { return *context_; }

struct Timer::State {
  explicit State(boost::asio::io_context& context) : timer(context) {}
  boost::asio::steady_timer timer;
  std::uint64_t turn =
      0;  // a handler of an earlier arming may already be queued when we re-arm: it must do nothing
  bool armed = false;
};

Timer::Timer(Loop& loop) : state_(std::make_shared<State>(loop.context())) {}
Timer::~Timer() { disarm(); }

void Timer::arm(Instant when, std::function<void()> expired) {
  const auto turn = ++state_->turn;
  state_->armed = true;
  state_->timer.expires_at(when);
  state_->timer.async_wait(
      [weak = std::weak_ptr(state_), turn, expired = std::move(expired)](const boost::system::error_code&) {
        const auto state = weak.lock();
        if (!state || state->turn != turn) return;
        state->armed = false;
        expired();
      });
}

void Timer::disarm() {
  ++state_->turn;
  state_->armed = false;
  state_->timer.cancel();
}

bool Timer::armed() const { return state_->armed; }

}  // namespace trainrun::io
