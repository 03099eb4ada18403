#include "cli/settings.h"

#include <set>

#include "cli/value.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

bool adds_up(Option option) {
  return option == Option::host || option == Option::export_name || option == Option::verbose;
}

// Whether the setting says which hosts, so that a weaker layer has no say in it. `--hosts-from none` does
// not.
bool names_hosts(const Setting& setting) {
  return setting.option == Option::host || setting.option == Option::hostfile ||
         (setting.option == Option::hosts_from && setting.value == "slurm");
}

}  // namespace

Result<Settings> Settings::merge(const std::vector<std::vector<Setting>>& layers) {
  Settings out;
  std::set<Option> answered;
  for (const auto& layer : layers) {
    std::set<Option> here;
    std::vector<Setting> exports;
    for (const auto& setting : layer) {
      if (auto ok = check_setting(setting); !ok) return tl::unexpected(ok.error());
      if (setting.option == Option::export_name) {
        exports.push_back(setting);
        continue;
      }
      if (answered.contains(setting.option) || (names_hosts(setting) && answered.contains(Option::host)))
        continue;
      here.insert(names_hosts(setting) ? Option::host : setting.option);
      here.insert(setting.option);
      auto& slot = out.chosen_[setting.option];
      if (!adds_up(setting.option)) slot.clear();
      slot.push_back(setting);
    }
    answered.merge(here);
    if (!exports.empty()) {
      auto& slot = out.chosen_[Option::export_name];
      slot.insert(slot.begin(), exports.begin(), exports.end());  // weaker ones first: the last one wins
    }
  }
  return out;
}

const Setting* Settings::get(Option option) const {
  const auto found = chosen_.find(option);
  return found == chosen_.end() ? nullptr : &found->second.back();
}

const std::vector<Setting>& Settings::all(Option option) const {
  static const std::vector<Setting> none;
  const auto found = chosen_.find(option);
  return found == chosen_.end() ? none : found->second;
}

bool Settings::flag(Option option) const {
  const Setting* setting = get(option);
  return setting != nullptr && parse_bool(setting->value).value_or(false);
}

int Settings::number(Option option, int otherwise) const {
  const Setting* setting = get(option);
  if (setting == nullptr) return otherwise;
  return static_cast<int>(parse_unsigned<std::uint32_t>(setting->value).value_or(0));
}

std::string Settings::text(Option option, std::string_view otherwise) const {
  const Setting* setting = get(option);
  return setting == nullptr ? std::string(otherwise) : setting->value;
}

}  // namespace trainrun::cli
