// The words after `trainrun rendezvous`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/base/time.h"

namespace trainrun::rendezvous {

struct StandaloneOptions {
  bool help = false;  // then nothing else counts
  std::uint32_t np = 0;
  std::string bind = "127.0.0.1:0";
  std::string key_file;  // empty: one of our own
  std::optional<Duration> timeout;
};

// Of a flag that is repeated the last one counts, as in the launcher.
Result<StandaloneOptions> parse_standalone_options(const std::vector<std::string>& words);
std::string standalone_help();

}  // namespace trainrun::rendezvous
