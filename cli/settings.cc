#include "cli/settings.h"

#include <set>

#include "cli/value.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

bool adds_up(Option option) {
  return option == Option::host || option == Option::export_name || option == Option::verbose;
}

// Options that answer one question, such as "which hosts?": when a layer has one of them, a weaker layer has
// no say in it. `--hosts-from none` names none.
Option question_of(const Setting& setting) {
  switch (setting.option) {
    case Option::hostfile:
    case Option::discover:
    case Option::host_discovery_script:
      return Option::host;
    case Option::hosts_from:
      return setting.value == "none" ? setting.option : Option::host;
    case Option::max_restarts:
      return Option::reset_limit;
    default:
      return setting.option;
  }
}

// --nnodes says how many ranks, and so do -np, --min-np and --max-np.
bool overruled(const Setting& setting, const std::set<Option>& answered) {
  if (answered.contains(setting.option) || answered.contains(question_of(setting))) return true;
  switch (setting.option) {
    case Option::nnodes:
      return answered.contains(Option::np) || answered.contains(Option::min_np) ||
             answered.contains(Option::max_np);
    case Option::np:
    case Option::min_np:
    case Option::max_np:
      return answered.contains(Option::nnodes);
    default:
      return false;
  }
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
      if (overruled(setting, answered)) continue;
      here.insert(question_of(setting));
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
