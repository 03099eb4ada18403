// Two layers: 64 pixels -> hidden, rectified -> 10 classes, softmax. All parameters lie in one array, so that
// one allreduce averages them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataset.h"

namespace digits {

class Network {
 public:
  static constexpr int hidden = 48;
  static constexpr std::size_t parameter_count = pixels * hidden + hidden + hidden * classes + classes;

  // The same seed gives the same start everywhere.
  explicit Network(std::uint64_t seed);

  // Adds the gradient of the loss of one digit to `gradient`, in double so that the sum over a batch does not
  // depend on how the batch is cut; returns the loss.
  double add_gradient(const Digit& digit, std::span<double> gradient) const;
  [[nodiscard]] int classify(const Digit& digit) const;

  // One step of gradient descent with momentum.
  void step(std::span<const double> gradient, double rate, double momentum);

  std::vector<double> parameters;  // parameter_count
  std::vector<double> velocity;    // the same

 private:
  struct Activations;
  void run(const Digit& digit, Activations& activations) const;
};

}  // namespace digits
