// Which rank of a world that hangs does something else than all others: most often they wait for it. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/core/innermost_frame.h"
#include "launcher/core/record.h"

namespace trainrun::core {

// What was seen of one rank within a short time.
struct Look {
  Rank rank;
  bool busy = false;                 // it runs, or used a good part of a core
  std::string operation{};           // of a program on `comm`: what it does, or did last
  std::optional<Duration> silent{};  // since its last output; nothing: it has printed nothing
  InnermostFrame frame{};            // of its stack, if one was shown
  std::string waits_in{};            // the kernel's name of the place, if it sleeps and that is shown
  bool stopped = false;              // by a signal or a debugger
};

// What tells it from the others, which are alike in that: "sleeps", where each of them "is running".
struct OddOne {
  Rank rank;
  std::string does, others_do;
  std::optional<Duration> silent{};
  std::vector<Rank> others{};
  TRAINRUN_RECORD("odd one") {
    v("rank", rank), v("does", does), v("others_do", others_do), v("silent", silent), v("others", others);
  }
};

// Nothing if there is no such rank. Where ranks wait is compared last: those that wait for each other may do
// so in several places.
std::optional<OddOne> odd_one_out(const std::vector<Look>& looks);

}  // namespace trainrun::core
