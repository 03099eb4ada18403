// What an inspection of a silent world has found so far. Pure.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/core/cause.h"
#include "launcher/core/notice.h"

namespace trainrun::core {

class Inspection {
 public:
  // All ranks have been silent for so long.
  void begin(Duration silence) {
    silence_ = silence;
    found_.clear();
    stopped_.clear();
  }
  // `stopped`: by somebody's SIGSTOP, or a debugger.
  void found(RankRef who, std::string evidence, bool stopped) {
    if (stopped) stopped_.emplace(who.worker, who);
    found_.push_back({std::move(who), std::move(evidence)});
  }

  [[nodiscard]] Duration silence() const { return silence_; }
  // Those that are stopped: surely stuck, while of others nobody can tell who makes the rest wait.
  [[nodiscard]] const std::map<WorkerId, RankRef>& stopped() const { return stopped_; }
  // What is told of each rank, in their order.
  [[nodiscard]] std::vector<notice::RankInspected> in_order() const {
    auto all = found_;
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.who.rank < b.who.rank; });
    return all;
  }

 private:
  Duration silence_{};
  std::vector<notice::RankInspected> found_;
  std::map<WorkerId, RankRef> stopped_;
};

}  // namespace trainrun::core
