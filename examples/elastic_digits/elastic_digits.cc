// digits as an elastic program: ranks may die and hosts may come and go while it trains. A batch has the same
// digits in it whatever the number of ranks, so the result is that of an undisturbed run, up to rounding.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint.h"
#include "dataset.h"
#include "network.h"
#include "sample_log.h"
#include "trainrun_elastic.hpp"

namespace {

namespace comm = trainrun::comm;
namespace elastic = trainrun::comm::elastic;

struct Options {
  int epochs = 25;
  int batch = 60;
  int commit_every = 10;
  int pace_ms = 0;
  std::string checkpoint, sample_log;
  std::string data = DIGITS_DATA;
};

[[noreturn]] void usage(int code) {
  std::fprintf(
      code == 0 ? stdout : stderr,
      "usage: elastic_digits [--epochs N] [--batch N] [--commit-every N] [--checkpoint FILE] [--pace MS]\n"
      "                      [--log-samples PREFIX] [--data FILE]\n"
      "  --epochs N            passes over the training part (25)\n"
      "  --batch N             digits in a step, over all ranks together (60)\n"
      "  --commit-every N      steps between two commits: what a failure costs at most (10)\n"
      "  --checkpoint FILE     rank 0 saves each epoch here, for the case that no rank survives\n"
      "  --pace MS             a step takes at least so long, to have time to pull plugs\n"
      "  --log-samples PREFIX  write to PREFIX.EPOCH how often each digit was used in that epoch\n"
      "  --data FILE           the digits, gzipped\n");
  std::exit(code);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") usage(0);
    if (i + 1 == argc) usage(2);
    const std::string value = argv[++i];
    const auto number = [&] {
      const int parsed = std::atoi(value.c_str());
      if (parsed < 1 || parsed > 1'000'000) usage(2);
      return parsed;
    };
    if (name == "--epochs")
      options.epochs = number();
    else if (name == "--batch")
      options.batch = number();
    else if (name == "--commit-every")
      options.commit_every = number();
    else if (name == "--pace")
      options.pace_ms = number();
    else if (name == "--checkpoint")
      options.checkpoint = value;
    else if (name == "--log-samples")
      options.sample_log = value;
    else if (name == "--data")
      options.data = value;
    else
      usage(2);
  }
  return options;
}

class Training {
 public:
  explicit Training(const Options& options)
      : options_(options),
        data_(digits::read_dataset(options.data)),
        sampler_(data_.train.size(), 1),
        used_(data_.train.size()) {
    // All that a rank must not lose, and all that a new one needs.
    state_.buffer("parameters", std::span(network_.parameters))
        .buffer("velocity", std::span(network_.velocity));
    state_.value("step", step_).value("loss", loss_).buffer("used", std::span(used_));
    sampler_.attach(state_);
    if (options_.checkpoint.empty()) return;
    const int epochs = digits::load_checkpoint(options_.checkpoint, network_);
    for (int epoch = 0; epoch < epochs; ++epoch) sampler_.next_epoch();
    if (epochs == 0) return;
    std::printf("going on after epoch %d of %s\n", epochs, options_.checkpoint.c_str());
    state_.save();  // a rank that found the file goes before those that did not, but not before survivors
  }

  int run() {
    const auto end = elastic::run(state_, [this](comm::World& world) { train(world); });
    if (end == elastic::End::finished && rank_ == 0) std::printf("held-out accuracy %.1f %%\n", accuracy_);
    return 0;
  }

 private:
  // Begins anywhere: with what the state says.
  void train(const comm::World& world) {
    rank_ = world.rank();
    std::printf("generation %u: rank %d of %d, epoch %llu, step %d\n", world.generation(), world.rank(),
                world.size(), static_cast<unsigned long long>(sampler_.epoch()), step_);
    std::fflush(stdout);
    while (sampler_.epoch() < static_cast<std::uint64_t>(options_.epochs)) {
      step(world);
      if (sampler_.done()) end_epoch(world);
      if (someone_leaves_ || step_ % options_.commit_every == 0) state_.commit(world);
    }
    accuracy_ = accuracy(world);
  }

  void step(const comm::World& world) {
    const auto due = std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.pace_ms);
    const auto batch = sampler_.next(static_cast<std::size_t>(options_.batch));
    // One allreduce for the gradient, the loss, the ranks whose host leaves, and for what each rank has used.
    const auto gradient_size = digits::Network::parameter_count, leaving = gradient_size + 1,
               first_used = leaving + 1;
    std::vector<double> sums(first_used + (logs() ? used_.size() : 0));
    const auto gradient = std::span(sums).first(gradient_size);
    for (const auto index : elastic::Sampler::share(batch, world.rank(), world.size())) {
      sums[gradient_size] += network_.add_gradient(data_.train[index], gradient);
      if (logs()) sums[first_used + index] += 1;
    }
    // Only the rank itself hears of it, but a commit takes all.
    if (elastic::State::should_stop(world)) sums[leaving] = 1;
    world.group().allreduce(std::span(sums));
    for (auto& value : gradient) value /= static_cast<double>(batch.size());
    network_.step(gradient, 0.1, 0.9);
    loss_ += sums[gradient_size];
    if (logs())
      for (std::size_t i = 0; i < used_.size(); ++i) used_[i] += static_cast<int>(sums[first_used + i]);
    sampler_.record(batch.size());
    ++step_;
    someone_leaves_ = sums[leaving] > 0;
    if (someone_leaves_ && world.rank() == 0) {
      std::printf("%.0f ranks are to stop: a commit at step %d\n", sums[leaving], step_);
      std::fflush(stdout);
    }
    std::this_thread::sleep_until(due);
  }

  void end_epoch(const comm::World& world) {
    const double held_out = accuracy(world);
    const int epoch = static_cast<int>(sampler_.epoch()) + 1;
    // All ranks have the same to say, and any of them may be dead before it has said it. Before the
    // checkpoint: an epoch that is saved is not trained again, so nobody would write its log.
    if (logs()) write_sample_log(options_.sample_log + "." + std::to_string(epoch), used_);
    if (world.rank() == 0) {
      std::printf("epoch %2d/%d  loss %.4f  held-out %.1f %%\n", epoch, options_.epochs,
                  loss_ / static_cast<double>(sampler_.count()), held_out);
      std::fflush(stdout);
      if (!options_.checkpoint.empty()) digits::save_checkpoint(options_.checkpoint, network_, epoch);
    }
    loss_ = 0;
    used_.assign(used_.size(), 0);
    sampler_.next_epoch();
    state_.commit(world);
  }

  [[nodiscard]] double accuracy(const comm::World& world) const {
    std::int64_t right = 0;
    const auto& digits = data_.held_out;
    for (auto i = static_cast<std::size_t>(world.rank()); i < digits.size();
         i += static_cast<std::size_t>(world.size()))
      right += network_.classify(digits[i]) == digits[i].label ? 1 : 0;
    return 100.0 * static_cast<double>(world.group().allreduce(right)) / static_cast<double>(digits.size());
  }
  [[nodiscard]] bool logs() const { return !options_.sample_log.empty(); }

  Options options_;
  digits::Dataset data_;
  digits::Network network_{1};
  elastic::Sampler sampler_;
  std::vector<int> used_;  // how often each digit in this epoch
  int step_ = 0;
  double loss_ = 0;  // of this epoch so far
  bool someone_leaves_ = false;
  int rank_ = 0;
  double accuracy_ = 0;
  elastic::State state_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  try {
    return Training(options).run();
  } catch (const comm::Error& error) {
    std::fprintf(stderr, "elastic_digits: %s: %s\n", trc_status_name(error.status), error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "elastic_digits: %s\n", error.what());
  }
  return 1;
}
