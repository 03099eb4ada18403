// Every rank gives its number; the sum is right on all of them, or the program fails.
#include <trainrun/trainrun_comm.hpp>

#include <iostream>
#include <string>

int main() {
  auto world = trainrun::comm::World::init();
  const int size = world.size();
  const double sum = world.group().allreduce(static_cast<double>(world.rank()));
  std::cout << "sum " + std::to_string(static_cast<int>(sum)) + " of " + std::to_string(size) + "\n"
            << std::flush;
  world.shutdown();
  return sum == size * (size - 1) / 2.0 ? 0 : 1;
}
