#include "network.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace digits {
namespace {

// Offsets of the parts in the array of parameters.
constexpr std::size_t w1 = 0;
constexpr std::size_t b1 = w1 + std::size_t{pixels} * Network::hidden;
constexpr std::size_t w2 = b1 + Network::hidden;
constexpr std::size_t b2 = w2 + std::size_t{Network::hidden} * classes;

// splitmix64: the standard library's distributions differ between implementations.
double uniform(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

}  // namespace

struct Network::Activations {
  std::array<double, hidden> hidden_out;
  std::array<double, classes> probability;
};

Network::Network(std::uint64_t seed) : parameters(parameter_count), velocity(parameter_count) {
  const auto fill = [&](std::size_t from, std::size_t count, double scale) {
    for (std::size_t i = from; i < from + count; ++i) parameters[i] = (2 * uniform(seed) - 1) * scale;
  };
  fill(w1, b1 - w1, std::sqrt(6.0 / pixels));
  fill(w2, b2 - w2, std::sqrt(6.0 / hidden));
}

void Network::run(const Digit& digit, Activations& a) const {
  for (std::size_t h = 0; h < hidden; ++h) {
    double sum = parameters[b1 + h];
    for (std::size_t p = 0; p < pixels; ++p)
      sum += parameters[w1 + h * pixels + p] * static_cast<double>(digit.pixel[p]);
    a.hidden_out[h] = std::max(sum, 0.0);
  }
  double total = 0, highest = -1e300;
  for (std::size_t c = 0; c < classes; ++c) {
    double sum = parameters[b2 + c];
    for (std::size_t h = 0; h < hidden; ++h) sum += parameters[w2 + c * hidden + h] * a.hidden_out[h];
    a.probability[c] = sum;
    highest = std::max(highest, sum);
  }
  for (auto& value : a.probability) total += value = std::exp(value - highest);
  for (auto& value : a.probability) value /= total;
}

double Network::add_gradient(const Digit& digit, std::span<double> gradient) const {
  Activations a;
  run(digit, a);
  std::array<double, hidden> back{};
  for (std::size_t c = 0; c < classes; ++c) {
    const double delta = a.probability[c] - (static_cast<int>(c) == digit.label ? 1 : 0);
    gradient[b2 + c] += delta;
    for (std::size_t h = 0; h < hidden; ++h) {
      gradient[w2 + c * hidden + h] += delta * a.hidden_out[h];
      back[h] += delta * parameters[w2 + c * hidden + h];
    }
  }
  for (std::size_t h = 0; h < hidden; ++h) {
    if (a.hidden_out[h] <= 0) continue;
    gradient[b1 + h] += back[h];
    for (std::size_t p = 0; p < pixels; ++p)
      gradient[w1 + h * pixels + p] += back[h] * static_cast<double>(digit.pixel[p]);
  }
  return -std::log(std::max(a.probability[static_cast<std::size_t>(digit.label)], 1e-300));
}

int Network::classify(const Digit& digit) const {
  Activations a;
  run(digit, a);
  return static_cast<int>(std::max_element(a.probability.begin(), a.probability.end()) -
                          a.probability.begin());
}

void Network::step(std::span<const double> gradient, double rate, double momentum) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    velocity[i] = momentum * velocity[i] - rate * gradient[i];
    parameters[i] += velocity[i];
  }
}

}  // namespace digits
