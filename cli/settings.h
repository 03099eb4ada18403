// The layers of settings on top of each other. Precedence lives here and nowhere else:
// flags > TRAINRUN_* > TOML > what a scheduler says > defaults.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/argv.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// For every option that somebody set: what counts, and where it came from. Options that nobody set are
// absent: their defaults are JobSpec's.
class Settings {
 public:
  // Layers from the strongest to the weakest; within a layer the last one wins. Options that add up (-H, -v)
  // add up within the strongest layer that has them, -x over all layers (the stronger wins for the same
  // name). -H,
  // --hostfile, --hosts-from SYSTEM and a discovery are one question ("which hosts?"): the strongest layer
  // that has one of them answers it. So are --reset-limit and --max-restarts, and --nnodes against the counts
  // of ranks.
  static Result<Settings> merge(const std::vector<std::vector<Setting>>& layers);

  [[nodiscard]] bool has(Option option) const { return chosen_.contains(option); }
  // The last (or only) one; nullptr when nobody set it.
  [[nodiscard]] const Setting* get(Option option) const;
  // All that count, in order: -H, -x, -v may have several.
  [[nodiscard]] const std::vector<Setting>& all(Option option) const;
  // Another value for an option that somebody set; its origin stays.
  void replace(Option option, std::string value) { chosen_.at(option).back().value = std::move(value); }
  // For an option that nobody set.
  void put(Setting setting) { chosen_[setting.option] = {std::move(setting)}; }
  [[nodiscard]] bool flag(Option option) const;
  [[nodiscard]] int number(Option option, int otherwise) const;
  [[nodiscard]] std::string text(Option option, std::string_view otherwise) const;

 private:
  std::map<Option, std::vector<Setting>> chosen_;
};

}  // namespace trainrun::cli
