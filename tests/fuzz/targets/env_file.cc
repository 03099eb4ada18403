// --env-file.
#include "cli/env_file.h"

#include "cli/value.h"
#include "launcher/core/env_forward.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = text_of(data, size);
  const auto env = cli::read_env_file(text, "dir/env");
  if (!env) return check_line_number(env.error(), "dir/env:", lines_in(text)), 0;
  accepted();
  std::string written, before;
  for (const auto& [name, value] : *env) {
    FUZZ_CHECK(cli::is_variable_name(name) && name > before);
    FUZZ_CHECK(value.find('\0') == std::string::npos && value.find('\n') == std::string::npos);
    written += "export " + name + "=\"" + value + "\"\n";
    before = name;
  }
  const auto again = cli::read_env_file(written, "again");
  FUZZ_CHECK(again && *again == *env);

  // The same as the environment of the launcher, and as words of -x.
  std::vector<std::string> exports;
  for (const auto& [name, value] : *env) exports.push_back(value);
  for (const auto policy : {EnvPolicy::by_default, EnvPolicy::all, EnvPolicy::none}) {
    const auto forwarded = core::forward_environment(*env, policy, false, exports, {});
    for (std::size_t i = 1; i < forwarded.env.size(); ++i)
      FUZZ_CHECK(forwarded.env[i - 1].first < forwarded.env[i].first);
  }
  return 0;
}
