// The lists of hosts of PBS, LSF and Grid Engine.
#include "host-discovery/batch.h"

#include "host-discovery/host_grammar.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = text_of(data, size);
  for (const auto read : {hosts::hosts_by_line, hosts::hosts_by_pair, hosts::hosts_of_grid_engine}) {
    const auto hosts = read(text, "WHERE");
    if (!hosts) {
      check_error(hosts.error());
      FUZZ_CHECK(hosts.error().message.starts_with("WHERE"));
      continue;
    }
    FUZZ_CHECK(!hosts->empty());
    check_hosts(*hosts);
    accepted();
  }
  return 0;
}
