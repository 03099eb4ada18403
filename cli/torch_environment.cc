#include "cli/torch_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "launcher/base/strings.h"

namespace trainrun::cli {

namespace {

constexpr std::string_view prefix = "PET_";

struct Name {
  std::string_view flag;
  bool is_switch = false;  // 0 or 1
};
// Those of torch 2.15.
constexpr Name names[] = {{"--nnodes"},
                          {"--nproc-per-node"},
                          {"--rdzv-backend"},
                          {"--rdzv-endpoint"},
                          {"--rdzv-id"},
                          {"--rdzv-conf"},
                          {"--standalone", true},
                          {"--max-restarts"},
                          {"--monitor-interval"},
                          {"--start-method"},
                          {"--event-log-handler"},
                          {"--role"},
                          {"--module", true},
                          {"--no-python", true},
                          {"--run-path", true},
                          {"--log-dir"},
                          {"--redirects"},
                          {"--tee"},
                          {"--local-ranks-filter"},
                          {"--log-line-prefix-template"},
                          {"--duplicate-stdout-filters"},
                          {"--duplicate-stderr-filters"},
                          {"--node-rank"},
                          {"--master-addr"},
                          {"--master-port"},
                          {"--local-addr"},
                          {"--signals-to-handle"},
                          {"--shutdown-timeout"},
                          {"--virtual-local-rank", true}};

std::string as_flag(std::string_view name) {
  std::string flag = "--";
  for (const char c : name.substr(prefix.size()))
    flag += c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return flag;
}

const Flag* flag_named(std::string_view name) {
  const auto& flags = job_line().flags;
  const auto found = std::find_if(flags.begin(), flags.end(), [&](const Flag& flag) {
    return flag.name == name ||
           std::find(flag.aliases.begin(), flag.aliases.end(), name) != flag.aliases.end();
  });
  return found == flags.end() ? nullptr : &*found;
}

}  // namespace

Result<TorchEnvironment> read_torch_environment(const std::vector<EnvVar>& environment) {
  TorchEnvironment out;
  ArgvPart part;
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(prefix) || value.empty()) continue;
    const auto spelled = as_flag(name);
    const auto* known = std::find_if(std::begin(names), std::end(names),
                                     [&](const Name& one) { return one.flag == spelled; });
    if (known == std::end(names) || (known->is_switch && value == "0")) continue;
    if (spelled == "--module")
      return fail(Code::usage,
                  fmt::format("{}={}: the command line says what is a module", name, quoted(value)),
                  "write -m MODULE, and unset the variable");
    const Flag* flag = flag_named(spelled);
    const bool taken =
        flag != nullptr && take_flag(*flag, {flag, name, known->is_switch ? "true" : value}, part);
    if (!taken)
      return fail(Code::usage, fmt::format("{}={} is not supported", name, quoted(value)),
                  hint_for_unknown_flag(spelled));
  }
  show_what_is_teed(part);
  out.settings = std::move(part.settings);
  out.left_out = std::move(part.left_out);
  return out;
}

}  // namespace trainrun::cli
