// Muxes for tests, and what they show.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/mux.h"

namespace trainrun::output {

using wire::Output;

inline MuxStyle plain_style(std::size_t ranks) {
  MuxStyle style;
  style.labels = make_labels(std::vector<std::string>(ranks, "h"), false);
  return style;
}

inline MuxStyle terminal_style(std::size_t ranks) {
  auto style = plain_style(ranks);
  style.terminal_out = style.terminal_err = true;
  return style;
}

inline std::string no_clock() { return {}; }

inline std::string fed(Mux& mux, std::uint32_t rank, std::string_view bytes, Output stream = Output::out) {
  std::string shown;
  mux.feed(rank, stream, bytes, shown);
  return shown;
}

inline std::string redrawn(Mux& mux) {
  std::string out, err;
  mux.redraw(out, err);
  return out + err;
}

}  // namespace trainrun::output
