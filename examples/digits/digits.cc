// Data-parallel training with trainrun_comm. Every rank has the whole network; of each batch it takes the
// digits rank, rank + size, ...; one allreduce adds the gradients, and all ranks take the same step.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "checkpoint.h"
#include "dataset.h"
#include "network.h"
#include "trainrun_comm.hpp"

namespace {

namespace comm = trainrun::comm;

struct Options {
  int epochs = 25;
  int batch = 60;
  int log_steps = 0;
  std::string checkpoint;
  std::string data = DIGITS_DATA;
};

[[noreturn]] void usage(int code) {
  std::fprintf(
      code == 0 ? stdout : stderr,
      "usage: digits [--epochs N] [--batch N] [--checkpoint FILE] [--data FILE] [--log-steps N]\n"
      "  --epochs N         passes over the training part in all, those of a checkpoint included (25)\n"
      "  --batch N          digits in a step, over all ranks together (60)\n"
      "  --checkpoint FILE  rank 0 saves the state here after each epoch; goes on from it if it exists\n"
      "  --data FILE        the digits, gzipped\n"
      "  --log-steps N      print the loss of the first N steps\n");
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
    else if (name == "--log-steps")
      options.log_steps = number();
    else if (name == "--checkpoint")
      options.checkpoint = value;
    else if (name == "--data")
      options.data = value;
    else
      usage(2);
  }
  return options;
}

// The order of the digits in an epoch: the same on every rank and for every number of ranks.
std::vector<std::size_t> order_of(int epoch, std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::uint64_t state = static_cast<std::uint64_t>(epoch) + 1;
  for (std::size_t i = count - 1; i > 0; --i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    std::swap(order[i], order[(state >> 33) % (i + 1)]);
  }
  return order;
}

double accuracy(const comm::World& world, const digits::Network& network,
                const std::vector<digits::Digit>& digits) {
  std::int64_t right = 0;
  for (auto i = static_cast<std::size_t>(world.rank()); i < digits.size();
       i += static_cast<std::size_t>(world.size()))
    right += network.classify(digits[i]) == digits[i].label ? 1 : 0;
  return 100.0 * static_cast<double>(world.group().allreduce(right)) / static_cast<double>(digits.size());
}

void train(const Options& options) {
  auto world = comm::World::init();
  const auto group = world.group();
  const bool speaks = world.rank() == 0;
  const auto dataset = digits::read_dataset(options.data);
  digits::Network network(1);

  int epoch = 0;
  if (!options.checkpoint.empty()) {
    // Rank 0 alone needs to see the file; its state is everybody's.
    if (speaks) epoch = digits::load_checkpoint(options.checkpoint, network);
    group.broadcast(std::span(&epoch, 1), 0);
    group.broadcast(std::span(network.parameters), 0);
    group.broadcast(std::span(network.velocity), 0);
    if (speaks && epoch > 0)
      std::printf("going on after epoch %d of %s\n", epoch, options.checkpoint.c_str());
  }

  const auto size = static_cast<std::size_t>(world.size()), rank = static_cast<std::size_t>(world.rank());
  const auto batch = static_cast<std::size_t>(options.batch);
  std::vector<double> gradient(digits::Network::parameter_count + 1);  // and the loss
  for (int step = 0; epoch < options.epochs; ++epoch) {
    const auto order = order_of(epoch, dataset.train.size());
    double epoch_loss = 0;
    for (std::size_t first = 0; first < order.size(); first += batch) {
      const auto count = std::min(batch, order.size() - first);
      std::fill(gradient.begin(), gradient.end(), 0.0);
      const auto parts = std::span(gradient).first(digits::Network::parameter_count);
      for (std::size_t i = rank; i < count; i += size)
        gradient.back() += network.add_gradient(dataset.train[order[first + i]], parts);
      group.allreduce(std::span(gradient), comm::Op::sum);
      for (auto& value : gradient) value /= static_cast<double>(count);
      network.step(parts, 0.1, 0.9);
      epoch_loss += gradient.back() * static_cast<double>(count);
      if (speaks && step < options.log_steps) std::printf("step %d loss %.9g\n", step, gradient.back());
      ++step;
    }
    const double held_out = accuracy(world, network, dataset.held_out);
    if (speaks) {
      if (!options.checkpoint.empty()) digits::save_checkpoint(options.checkpoint, network, epoch + 1);
      std::printf("epoch %2d/%d  loss %.4f  held-out %.1f %%\n", epoch + 1, options.epochs,
                  epoch_loss / static_cast<double>(order.size()), held_out);
      std::fflush(stdout);
    }
  }
  const double held_out = accuracy(world, network, dataset.held_out);
  world.shutdown();
  if (speaks) std::printf("held-out accuracy %.1f %%\n", held_out);
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  try {
    train(options);
    return 0;
  } catch (const comm::Error& error) {
    std::fprintf(stderr, "digits: %s: %s\n", trc_status_name(error.status), error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
  }
  return 1;
}
