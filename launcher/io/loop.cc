#include "launcher/io/loop.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "launcher/io/beat.h"
#include "launcher/io/clock.h"
#include "launcher/io/turn.h"

namespace trainrun::io {
namespace {

constexpr Duration between_beats = milliseconds(250);

}  // namespace

struct Loop::Pulse {
  explicit Pulse(boost::asio::io_context& context) : timer(context) {}
  boost::asio::steady_timer timer;
};

// Concurrency hint 1 keeps the lock (post() comes from other threads) but expects a single thread in run().
Loop::Loop() : context_(std::make_unique<boost::asio::io_context>(1)) {}
Loop::~Loop() = default;

void Loop::run() {
  context_->run();
  context_->restart();
}
void Loop::stop() { context_->stop(); }
void Loop::post(std::function<void()> work) {
  boost::asio::post(*context_, [work = std::move(work)] {
    const Turn turn;
    work();
  });
}
Instant Loop::now() { return running_now(); }
boost::asio::io_context& Loop::context() { return *context_; }

void Loop::leave_out_stops() {
  pulse_ = std::make_unique<Pulse>(*context_);
  beat();
}

void Loop::beat() {
  io::beat(between_beats);
  pulse_->timer.expires_after(between_beats);
  pulse_->timer.async_wait([this](const boost::system::error_code& error) {
    const Turn turn;
    if (!error) beat();
  });
}

struct Timer::State : std::enable_shared_from_this<Timer::State> {
  explicit State(boost::asio::io_context& context) : timer(context) {}

  void wait() {
    timer.expires_at(real ? when : real_at(when));
    timer.async_wait([weak = weak_from_this(), due_in = turn](const boost::system::error_code&) {
      const Turn measured;
      const auto state = weak.lock();
      if (!state || state->turn != due_in) return;
      // A stop in between has put it off.
      if (!state->real && running_now() < state->when) return state->wait();
      state->armed = false;
      const auto work = std::exchange(state->expired, nullptr);
      work();
    });
  }

  boost::asio::steady_timer timer;
  std::uint64_t turn =
      0;  // a handler of an earlier arming may already be queued when we re-arm: it must do nothing
  bool armed = false, real = false;
  Instant when{};
  std::function<void()> expired;
};

Timer::Timer(Loop& loop) : state_(std::make_shared<State>(loop.context())) {}
Timer::~Timer() { disarm(); }

void Timer::arm(Instant when, std::function<void()> expired) {
  state_->real = false;
  state_->when = when;
  start(std::move(expired));
}

void Timer::arm_real(Instant when, std::function<void()> expired) {
  state_->real = true;
  state_->when = when;
  start(std::move(expired));
}

void Timer::start(std::function<void()> expired) {
  ++state_->turn;
  state_->armed = true;
  state_->expired = std::move(expired);
  state_->wait();
}

void Timer::disarm() {
  ++state_->turn;
  state_->armed = false;
  state_->expired = nullptr;
  state_->timer.cancel();
}

bool Timer::armed() const { return state_->armed; }

}  // namespace trainrun::io
