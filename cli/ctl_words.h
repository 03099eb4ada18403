// The words after `trainrun ctl`, taken apart. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/control/protocol.h"

namespace trainrun::cli {

struct CtlWords {
  enum class Action : std::uint8_t { ask, list, help };
  Action action = Action::help;
  control::Command command{};  // of ask
  std::string job{};           // --job: a prefix of an id; empty: the only one
  bool json = false;

  friend bool operator==(const CtlWords&, const CtlWords&) = default;
};

Result<CtlWords> parse_ctl(const std::vector<std::string>& words);

}  // namespace trainrun::cli
