// The subcommand `trainrun rendezvous` as a program, for tests that need no launcher.
#include <cstdio>

#include "cli/rendezvous_words.h"

int main(int argc, char** argv) {
  const auto options = trainrun::cli::parse_rendezvous({argv + 1, argv + argc});
  if (options && *options) return trainrun::rendezvous::rendezvous_main(**options);
  if (!options) std::fprintf(stderr, "trainrun: %s\n", options.error().message.c_str());
  return 2;
}
