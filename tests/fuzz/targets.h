// The targets by name. Each is LLVMFuzzerTestOneInput of its file, which the build renames, since a program
// can have one only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace trainrun::fuzz {

struct Target {
  std::string_view name;
  int (*run)(const std::uint8_t*, std::size_t);
};

std::span<const Target> targets();

}  // namespace trainrun::fuzz
