// `trainrun rendezvous`: the server alone, for workers that somebody else starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/base/time.h"

namespace trainrun::rendezvous {

struct StandaloneOptions {
  std::uint32_t np = 0;
  std::string bind = "127.0.0.1:0";
  std::string key_file{};  // empty: one of our own
  std::optional<Duration> timeout{};
};

// Gives the exit code: 0 all members left, 69 a member was lost or gave up, 124 --timeout, 130/143/129
// INT/TERM/HUP, 2 usage, 70, 75.
int rendezvous_main(const StandaloneOptions& options);

}  // namespace trainrun::rendezvous
