#include "cli/horovod_config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

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

}  // namespace

Result<std::vector<YamlValue>> read_yaml(const std::string& text, std::string_view name) {
  std::vector<YamlValue> values;
  try {
    const auto top = YAML::Load(text);
    if (top.IsNull()) return values;
    if (!top.IsMap()) return tl::unexpected(not_a_mapping(name, top));
    for (const auto& group : top) {
      const auto key = group.first.as<std::string>();
      if (group.second.IsScalar()) {
        values.push_back({key, group.second.Scalar(), place(name, group.second.Mark())});
      } else if (group.second.IsMap()) {
        for (const auto& entry : group.second) {
          // What is not said holds as if the line were not there.
          if (entry.second.IsScalar())
            values.push_back({key + "." + entry.first.as<std::string>(), entry.second.Scalar(),
                              place(name, entry.second.Mark())});
          else if (!entry.second.IsNull())
            return fail(Code::config,
                        fmt::format("{}: one value is expected", place(name, entry.second.Mark())));
        }
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
