// Where what a relayed connection does is told.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "launcher/base/id.h"

namespace trainrun::agent {

struct StreamHandlers {
  std::function<void(StreamId, std::string_view bytes, bool end)> data;
  // Of what was given, the worker has taken so much more.
  std::function<void(StreamId, std::uint64_t bytes)> taken = nullptr;
};

}  // namespace trainrun::agent
