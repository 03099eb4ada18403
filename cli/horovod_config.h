// horovodrun's configuration file, YAML. The only file that knows libyaml
// (launcher/decisions/0029-horovodrun-is-a-table.md).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/base/error.h"

namespace trainrun::cli {

struct YamlValue {
  std::string key;     // "params.cycle_time_ms"; of the top level: "controller"
  std::string value;   // a scalar, as it is written
  std::string origin;  // "horovod.yaml:3:5"
};

// The scalars of a mapping, and of mappings in it. An Error (Code::config) says where.
Result<std::vector<YamlValue>> read_yaml(const std::string& text, std::string_view name);

}  // namespace trainrun::cli
