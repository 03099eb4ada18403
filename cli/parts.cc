#include "cli/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/value.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"

namespace trainrun::cli {

namespace {

constexpr std::size_t longest_shown = 60;

// What one part says by one option: its words where they add up, else the last one.
struct Said {
  std::size_t part = 0;
  std::vector<Setting> settings{};

  [[nodiscard]] bool same_as(const Said& other) const {
    return std::equal(settings.begin(), settings.end(), other.settings.begin(), other.settings.end(),
                      [](const Setting& a, const Setting& b) { return a.value == b.value; });
  }
};

std::string shown(const Said& said) {
  std::string words;
  for (const auto& [option, value, origin] : said.settings) {
    words += " " + origin;
    if (info(option).takes_value() || value != "true")
      words += (info(option).takes_value() ? " " : "=") + printable(value.substr(0, longest_shown));
  }
  return words;
}

// "part 2 ('./b')"
std::string name_of(const std::vector<ArgvPart>& parts, std::size_t number) {
  const auto& program = parts[number].program;
  return fmt::format("part {} ({})", number + 1, program.empty() ? "a module" : quoted(program.front()));
}

Result<void> conflict(const std::vector<ArgvPart>& parts, const Said& first, const Said& second) {
  return fail(Code::usage,
              fmt::format("{} says{}, {} says{}: a job has one answer", name_of(parts, first.part),
                          shown(first), name_of(parts, second.part), shown(second)),
              fmt::format("write {} once", second.settings.front().origin));
}

// What each part says with -H, where they do not all say the same: then each has hosts of its own.
class OwnHosts {
 public:
  explicit OwnHosts(std::size_t parts) : said_(parts) {}

  void hear(const Said& said) { said_[said.part] = said.settings; }

  // Gives them back to `parts`; `common` has those of all, in their order.
  void settle(std::vector<ArgvPart>& parts, std::vector<Setting>& common) const {
    const auto heard = [](const std::vector<Setting>& own) { return !own.empty(); };
    const auto first = std::find_if(said_.begin(), said_.end(), heard);
    const auto differs = [&](const std::vector<Setting>& own) {
      return heard(own) && !Said{0, own}.same_as(Said{0, *first});
    };
    if (first == said_.end() || std::none_of(first, said_.end(), differs)) return;
    std::erase_if(common, [](const Setting& setting) { return setting.option == Option::host; });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      common.insert(common.end(), said_[i].begin(), said_[i].end());
      parts[i].settings.insert(parts[i].settings.end(), said_[i].begin(), said_[i].end());
    }
  }

 private:
  std::vector<std::vector<Setting>> said_;
};

}  // namespace

Result<std::vector<Setting>> take_common(std::vector<ArgvPart>& parts) {
  std::vector<Setting> common;
  std::map<Option, Said> answers;
  OwnHosts own_hosts(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<Setting> own;
    std::map<Option, Said> here;
    for (auto& setting : parts[i].settings) {
      const OptionInfo& row = info(setting.option);
      if (row.option == Option::module || (parts.size() > 1 && row.per_part())) {
        if (auto ok = check_setting(setting); !ok) return tl::unexpected(ok.error());
        own.push_back(std::move(setting));
      } else if (parts.size() == 1 || row.type == Type::count) {
        common.push_back(std::move(setting));
      } else {
        auto& said = here.try_emplace(setting.option, Said{i}).first->second;
        if (row.type != Type::hosts) said.settings.clear();
        said.settings.push_back(std::move(setting));
      }
    }
    parts[i].settings = std::move(own);
    for (auto& [option, said] : here) {
      if (option == Option::host) own_hosts.hear(said);
      const auto [known, fresh] = answers.try_emplace(option, said);
      if (!fresh && option != Option::host && !known->second.same_as(said))
        return tl::unexpected(conflict(parts, known->second, said).error());
      if (fresh) common.insert(common.end(), said.settings.begin(), said.settings.end());
    }
  }
  own_hosts.settle(parts, common);
  return common;
}

std::vector<std::string> notes_on_needless(const std::vector<ArgvPart>& parts) {
  std::vector<std::pair<std::string_view, std::vector<std::string>>> reasons;
  for (const auto& part : parts) {
    for (const auto& [spelled, why, value] : part.left_out) {
      auto known =
          std::find_if(reasons.begin(), reasons.end(), [&](const auto& one) { return one.first == why; });
      if (known == reasons.end()) known = reasons.insert(known, {why, {}});
      auto& flags = known->second;
      if (std::find(flags.begin(), flags.end(), spelled) == flags.end()) flags.push_back(spelled);
    }
  }
  std::vector<std::string> notes;
  for (const auto& [why, flags] : reasons)
    notes.push_back(
        fmt::format("{} {} no effect: {}", list_names(flags), flags.size() == 1 ? "has" : "have", why));
  return notes;
}

}  // namespace trainrun::cli
