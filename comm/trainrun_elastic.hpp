// Elastic programs for C++20: a training that goes on, in the same process, when other ranks die, and when
// hosts come or go. Header-only over the C interface; trainrun_comm.h says what each step means.
//
//   elastic::State state;
//   state.buffer("weights", std::span(weights)).value("step", step);
//   const auto end = elastic::run(state, [&](World& world) {
//     while (step < steps) {
//       ...compute, world.group().allreduce(...), change the weights...
//       ++step;
//       if (step % 10 == 0) state.commit(world);
//     }
//   });
//
// The step is counted before the commit: what is committed must say that it is done, else it would be done
// once more after a failure.
// A failure leads back to the last commit, in a new world, of all ranks. What lies outside the state must be
// made anew by the function from the state alone. All ranks run the same operations from its beginning.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainrun_comm.hpp"

namespace trainrun::comm::elastic {

// Called in each new world but the first, before the state is synchronised: scale what depends on the number
// of ranks.
using OnReset = std::function<void(int old_size, int new_size)>;

class State {
 public:
  State() {
    trc_state* state = nullptr;
    detail::check(trc_state_new(&state));
    state_.reset(state);
  }

  // Memory of the program, which must outlive the state and stay where it is. All ranks add the same names
  // and sizes; else sync throws Mismatch, which names the difference.
  template <class T>
  requires(std::is_trivially_copyable_v<T> && !std::is_const_v<T>) State& buffer(const std::string& name,
                                                                                 std::span<T> data) {
    detail::check(trc_state_add(handle(), name.c_str(), data.data(), data.size_bytes()));
    return *this;
  }
  template <class T>
  requires std::is_trivially_copyable_v<T> State& value(const std::string& name, T& value) {
    return buffer(name, std::span<T>(&value, 1));
  }
  void on_reset(OnReset callback) { callbacks_.push_back(std::move(callback)); }

  // The point to which a failure leads back; then throws HostsUpdated, on all ranks, if hosts will come or
  // go.
  void commit(const World& world) { detail::check(trc_state_commit(handle(), world.handle())); }
  // The two halves of it. Not every rank must save, but all must check at the same points.
  void save() { detail::check(trc_state_save(handle())); }
  static void check_host_updates(const World& world) {
    detail::check(trc_check_host_updates(world.handle()));
  }
  // This rank has heard that it is to go, be it by a pre-emption or by the user's wish.
  [[nodiscard]] static bool should_stop(const World& world) { return trc_should_stop(world.handle()) != 0; }

  void restore() { detail::check(trc_state_restore(handle())); }
  // run() does this first in each world.
  void sync(const World& world) { detail::check(trc_state_sync(handle(), world.handle())); }

  void reset(int old_size, int new_size) const {
    for (const auto& callback : callbacks_) callback(old_size, new_size);
  }
  [[nodiscard]] trc_state* handle() const { return state_.get(); }

 private:
  struct Free {
    void operator()(trc_state* state) const { trc_state_free(state); }
  };
  std::unique_ptr<trc_state, Free> state_;
  std::vector<OnReset> callbacks_;
};

enum class End {
  finished,  // the work returned, on all ranks
  removed,   // the job goes on without this process, which should exit with 0
};

// Runs work(world) in the world of the environment, and again in the next one, from the last commit, when a
// rank is lost, a connection fails, an operation times out, or hosts come or go. Everything else that work
// throws passes through, and so does a failure after which there is no way on.
template <class Work>
End run(State& state, Work&& work, const Options& options = {}) {
  trc_options plain{};
  plain.struct_size = sizeof plain;
  plain.op_timeout_ms = options.op_timeout.count();
  plain.init_timeout_ms = options.init_timeout.count();
  trc_elastic* membership = nullptr;
  detail::check(trc_elastic_new(&plain, &membership));
  const std::unique_ptr<trc_elastic, void (*)(trc_elastic*)> owner(membership, trc_elastic_free);

  int size = 0;
  trc_status ended = TRC_OK;
  for (;;) {
    trc_world* formed = nullptr;
    const auto status = trc_elastic_form(membership, state.handle(), ended, &formed);
    if (status == TRC_REMOVED) return End::removed;
    detail::check(status);
    auto world = World::borrowed(formed);
    try {
      const int old_size = std::exchange(size, world.size());
      if (old_size > 0) state.reset(old_size, size);
      state.sync(world);
      work(world);
      detail::check(trc_elastic_finish(membership));
      return End::finished;
    } catch (const Error& error) {
      if (trc_elastic_goes_on(error.status) == 0) throw;
      ended = error.status;
    }
  }
}

// A learning rate of `per_rank` for each rank of the world, whatever its size.
inline OnReset scale_with_size(double& rate, double per_rank) {
  return [&rate, per_rank](int, int new_size) { rate = per_rank * new_size; };
}

// The order in which an epoch goes through 0..count-1, the same on all ranks and for every number of them,
// and how far it has come. What was recorded is not seen again in the epoch, also after the world has
// changed: the rest is shared out anew. epoch and processed belong into the state; attach() puts them there.
class Sampler {
 public:
  explicit Sampler(std::size_t count, std::uint64_t seed = 0, bool shuffle = true)
      : count_(count), seed_(seed), shuffle_(shuffle) {}
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  void attach(State& state, const std::string& name = "sampler") {
    state.value(name + ".epoch", epoch_).value(name + ".processed", processed_);
  }

  // The next indices of the epoch for all ranks together: `count` of them, fewer at its end.
  [[nodiscard]] std::span<const std::size_t> next(std::size_t count) {
    sort_out();
    const auto first = std::min<std::size_t>(processed_, order_.size());
    return std::span(order_).subspan(first, std::min(count, order_.size() - first));
  }
  // One rank's of them: every size-th.
  [[nodiscard]] static std::vector<std::size_t> share(std::span<const std::size_t> batch, int rank,
                                                      int size) {
    std::vector<std::size_t> mine;
    for (auto i = static_cast<std::size_t>(rank); i < batch.size(); i += static_cast<std::size_t>(size))
      mine.push_back(batch[i]);
    return mine;
  }
  // So many of next() were processed, by all ranks together.
  void record(std::size_t count) { processed_ = std::min<std::uint64_t>(processed_ + count, count_); }
  [[nodiscard]] bool done() const { return processed_ >= count_; }
  // At the end of an epoch, so that a commit afterwards knows that it is over.
  void next_epoch() {
    ++epoch_;
    processed_ = 0;
  }
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  [[nodiscard]] std::uint64_t processed() const { return processed_; }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  // Fisher-Yates over splitmix64: the standard library's algorithms differ between implementations, and
  // Python does the same.
  void sort_out() {
    if (order_.size() == count_ && sorted_for_ == epoch_) return;
    order_.resize(count_);
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    sorted_for_ = epoch_;
    if (!shuffle_) return;
    std::uint64_t state = seed_ * 0x9e3779b97f4a7c15 + epoch_;
    for (std::size_t i = count_; i > 1; --i) {
      state += 0x9e3779b97f4a7c15;
      std::uint64_t z = state;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      std::swap(order_[i - 1], order_[(z ^ (z >> 31)) % i]);
    }
  }

  std::size_t count_;
  std::uint64_t seed_;
  bool shuffle_;
  std::uint64_t epoch_ = 0, processed_ = 0, sorted_for_ = 0;
  std::vector<std::size_t> order_;
};

}  // namespace trainrun::comm::elastic
