// "1 rank", "2 ranks".
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace trainrun::cli {

template <class Count>
std::string plural(Count count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace trainrun::cli
