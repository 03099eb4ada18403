// Where a worker stands, from its environment: lines NAME=VALUE.
#include "comm/environment.h"

#include <map>
#include <string>

#include "launcher/base/strings.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

namespace {
std::map<std::string, std::string, std::less<>> variables;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  variables = {{"TRAINRUN_HOST", "here"}};
  for (const auto line : split(text_of(data, size), '\n')) {
    const auto equals = line.find('=');
    if (equals == std::string_view::npos || line.find('\0') != std::string_view::npos) continue;
    variables.insert_or_assign(std::string(line.substr(0, equals)), std::string(line.substr(equals + 1)));
  }
  const auto get = [](const char* name) -> const char* {
    const auto at = variables.find(std::string_view(name));
    return at == variables.end() ? nullptr : at->second.c_str();
  };
  const auto environment = comm::read_environment(get, nullptr);
  if (!environment) {
    FUZZ_CHECK(environment.error().status == TRC_INVALID);
    return check_error({Code::config, environment.error().message}), 0;
  }
  accepted();
  FUZZ_CHECK(environment->op_timeout > Duration::zero() && environment->init_timeout > Duration::zero() &&
             environment->elastic_timeout > Duration::zero());
  FUZZ_CHECK(!environment->rendezvous.empty() || environment->size.value_or(1) <= 1);
  FUZZ_CHECK(environment->rendezvous.empty() || !environment->key_file.empty());
  return 0;
}
