// The subcommand `trainrun rendezvous` as a program, for tests that need no launcher.
#include "rendezvous/standalone.h"

int main(int argc, char** argv) {
  return trainrun::rendezvous::rendezvous_main(std::vector<std::string>(argv + 1, argv + argc));
}
