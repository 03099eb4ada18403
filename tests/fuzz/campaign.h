// A bounded run of one target in a child process: its corpus, then inputs made from it. The parent survives
// whatever the child dies of, and keeps the input that did it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/corpus.h"
#include "tests/fuzz/targets.h"

namespace trainrun::fuzz {

struct Campaign {
  Target target;
  std::vector<Seed> seeds;
  std::vector<std::string> words{};  // of the dictionary
  std::uint64_t seed = 1;
  std::uint64_t runs = 0;  // inputs beside the seeds
  unsigned hang_seconds =
      20;  // for one input: a deadline against hanging, sanitizers and a busy machine counted
};

struct Outcome {
  bool passed = false;
  std::string how{};       // "was killed by SIGABRT"; of a corpus file: which was not taken
  std::string input{};     // what was under test then
  bool has_input = false;  // false: it died between inputs, as of a leak that is found at the end
  std::uint64_t tried = 0, accepted = 0;
};

Outcome run(const Campaign& campaign);

}  // namespace trainrun::fuzz
