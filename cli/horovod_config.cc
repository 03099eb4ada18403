#include "cli/horovod_config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <utility>

namespace trainrun::cli {

namespace {

std::string place(std::string_view name, const YAML::Mark& mark) {
  return mark.is_null() ? std::string(name) : fmt::format("{}:{}:{}", name, mark.line + 1, mark.column + 1);
}

Error not_a_mapping(std::string_view name, const YAML::Node& node) {
  return {Code::config, fmt::format("{}: no mapping of names to values", place(name, node.Mark())),
          "write it as horovodrun reads it: params:, autotune:, timeline:, stall_check:, library_options:, "
          "logging:, each with its settings indented below"};
}

bool is_group(std::string_view key) {
  for (const std::string_view ours :
       {"params", "autotune", "timeline", "stall_check", "library_options", "logging"})
    if (key == ours) return true;
  return false;
}

// Of a name that stands there twice the last counts, as where horovodrun reads it.
void put(std::vector<YamlValue>& values, YamlValue value) {
  std::erase_if(values, [&](const YamlValue& one) { return one.key == value.key; });
  values.push_back(std::move(value));
}

Result<void> read_entries(const std::string& key, const YAML::Node& group, std::string_view name,
                          std::vector<YamlValue>& values) {
  for (const auto& entry : group) {
    const auto inner = entry.first.as<std::string>();
    if (inner == "<<" && entry.second.IsMap()) continue;
    if (entry.second.IsScalar())
      put(values, {key + "." + inner, entry.second.Scalar(), place(name, entry.second.Mark())});
    else if (!entry.second.IsNull())  // what is not said holds as if the line were not there
      return fail(Code::config, fmt::format("{}: one value is expected", place(name, entry.second.Mark())));
  }
  return {};
}

// "<<" takes in what another mapping has, beneath the group's own. One step: a mapping may hold itself.
Result<void> read_group(const std::string& key, const YAML::Node& group, std::string_view name,
                        std::vector<YamlValue>& values) {
  if (const auto others = group["<<"]; others && others.IsMap())
    if (auto ok = read_entries(key, others, name, values); !ok) return ok;
  return read_entries(key, group, name, values);
}

}  // namespace

Result<std::vector<YamlValue>> read_yaml(const std::string& text, std::string_view name) {
  std::vector<YamlValue> values;
  try {
    const auto top = YAML::Load(text);
    if (top.IsNull()) return values;
    if (!top.IsMap()) return tl::unexpected(not_a_mapping(name, top));
    for (const auto& group : top) {
      const auto key = group.first.as<std::string>();
      if (group.second.IsScalar() || (!is_group(key) && !group.second.IsNull())) {
        const auto value = group.second.IsScalar() ? group.second.Scalar() : std::string();
        put(values, {key, value, place(name, group.second.Mark())});
      } else if (group.second.IsMap()) {
        if (auto ok = read_group(key, group.second, name, values); !ok) return tl::unexpected(ok.error());
      } else if (!group.second.IsNull()) {
        return tl::unexpected(not_a_mapping(name, group.second));
      }
    }
  } catch (const YAML::Exception& problem) {
    return fail(Code::config, fmt::format("{}: {}", place(name, problem.mark), problem.msg));
  }
  return values;
}

}  // namespace trainrun::cli
