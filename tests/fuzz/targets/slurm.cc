// Slurm's host lists and counts, and the environment of its jobs. The first line is what squeue printed; the
// other lines are variables.
#include "host-discovery/slurm.h"

#include <map>
#include <optional>

#include "host-discovery/host_grammar.h"
#include "host-discovery/hostlist.h"
#include "launcher/base/strings.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

namespace {

void check_list(std::string_view text) {
  const auto names = hosts::expand_hostlist(text);
  if (!names) return check_error(names.error());
  FUZZ_CHECK(names->size() <= hosts::most_hosts);
  std::string joined;
  for (const auto& name : *names) {
    FUZZ_CHECK(hosts::check_name(name));
    joined += name + ",";
  }
  const auto again = hosts::expand_hostlist(joined);
  FUZZ_CHECK(again && *again == *names);
}

void check_counts(std::string_view text) {
  constexpr std::size_t most = 100;
  const auto counts = hosts::expand_counts(text, most);
  if (!counts) return check_error(counts.error());
  FUZZ_CHECK(counts->size() <= most);
  for (const int count : *counts) FUZZ_CHECK(count >= 1 && count <= 65535);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto lines = split(text_of(data, size), '\n');
  std::map<std::string, std::string, std::less<>> variables{{"SLURM_JOB_ID", "7"}};
  for (const auto line : lines) {
    const auto equals = line.find('=');
    if (equals != std::string_view::npos)
      variables.insert_or_assign(std::string(line.substr(0, equals)), std::string(line.substr(equals + 1)));
  }
  const auto env = [&](std::string_view name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  };
  check_list(lines.front());
  check_counts(lines.front());
  for (const auto& [name, value] : variables) check_list(value), check_counts(value);

  const auto hosts = hosts::slurm_hosts(env);
  if (hosts) {
    check_hosts(*hosts);
    FUZZ_CHECK(!hosts->empty());
    accepted();
  } else {
    check_error(hosts.error());
  }
  const auto live = hosts::live_slurm_hosts(lines.front(), env);
  if (!live) return check_error(live.error()), 0;
  check_hosts(*live);
  return 0;
}
