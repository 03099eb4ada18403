// The list of -H.
#include "host-discovery/host_list.h"

#include "host-discovery/host_grammar.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = text_of(data, size);
  const auto hosts = hosts::parse_host_list(text, "-H");
  if (!hosts) return check_error(hosts.error(), "-H: "), 0;
  accepted();
  FUZZ_CHECK(!hosts->empty());
  check_hosts(*hosts);
  for (const auto& host : std::vector(
           hosts->begin(), hosts->begin() + static_cast<long>(std::min<std::size_t>(hosts->size(), 64)))) {
    const auto again = hosts::parse_host_item(item_of(host));
    FUZZ_CHECK(again && again->size() == 1 && again->front() == host);
  }
  return 0;
}
