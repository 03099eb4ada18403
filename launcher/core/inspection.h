// What an inspection of a silent world has found so far. Pure.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/core/cause.h"
#include "launcher/core/notice.h"
#include "launcher/core/odd_one_out.h"

namespace trainrun::core {

class Inspection {
 public:
  // All ranks have been silent for so long, and all but the `absent`, if there are any, wait for these.
  void begin(Duration silence, std::vector<WorkerId> absent = {}) {
    silence_ = silence;
    absent_ = std::move(absent);
    found_.clear();
    stopped_.clear();
    odd_.reset();
  }
  // `stopped`: by somebody's SIGSTOP, or a debugger.
  void found(RankRef who, std::string evidence, bool stopped) {
    if (stopped) stopped_.emplace(who.worker, who);
    found_.push_back({std::move(who), std::move(evidence)});
  }

  void found(const OddOne& odd) {
    const auto whose = [&odd](const auto& it) { return it.who.rank == odd.rank; };
    if (const auto it = std::find_if(found_.begin(), found_.end(), whose); it != found_.end())
      odd_ = {it->who, odd.does, odd.others_do, odd.others.size()};
  }

  [[nodiscard]] Duration silence() const { return silence_; }
  // Those that are stopped: surely stuck, while of others nobody can tell who makes the rest wait.
  [[nodiscard]] const std::map<WorkerId, RankRef>& stopped() const { return stopped_; }
  // Those for whom the others wait ...
  [[nodiscard]] const std::vector<WorkerId>& absent() const { return absent_; }
  // ... and the one for whom they do most often, where it is not known.
  [[nodiscard]] const std::optional<cause::OddRank>& odd() const { return odd_; }
  // What is told of each rank, in their order.
  [[nodiscard]] std::vector<notice::RankInspected> in_order() const {
    auto all = found_;
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.who.rank < b.who.rank; });
    return all;
  }

 private:
  Duration silence_{};
  std::vector<WorkerId> absent_;
  std::vector<notice::RankInspected> found_;
  std::map<WorkerId, RankRef> stopped_;
  std::optional<cause::OddRank> odd_;
};

}  // namespace trainrun::core
