// Host files of all dialects, and hosts that are named twice.
#include "host-discovery/hostfile.h"

#include <fmt/format.h>

#include "host-discovery/host_key.h"
#include "host-discovery/merge.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

namespace {

std::string line_of(const Host& host) {
  auto name = host;
  name.port = 0;
  auto line = item_of(name);
  if (host.port != 0) line += fmt::format(" port={}", host.port);
  if (!host.identity.empty()) line += " identity=" + host.identity;
  return line + "\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = text_of(data, size);
  const auto hosts = hosts::parse_hostfile(text, "dir/hosts");
  if (!hosts) {
    if (hosts.error().message == "dir/hosts: names no host") return 0;
    return check_line_number(hosts.error(), "dir/hosts:", lines_in(text)), 0;
  }
  accepted();
  FUZZ_CHECK(!hosts->empty());
  check_hosts(*hosts);
  if (hosts->size() > 256) return 0;

  std::string written;
  for (const auto& host : *hosts) written += line_of(host);
  const auto again = hosts::parse_hostfile(written, "again");
  if (!again) show("written", written), show("error", again.error().message);
  FUZZ_CHECK(again && *again == *hosts);

  const auto here = [](const Host& host) { return host.name == "here" || host.name == "localhost"; };
  auto merged = hosts::merge_hosts(*hosts, 4, here);
  if (!merged) return check_error(merged.error()), 0;
  for (auto& host : *merged) host.slots_given = true;  // the default was added already
  const auto twice = hosts::merge_hosts(*merged, 4, here);
  FUZZ_CHECK(twice && *twice == *merged);
  return 0;
}
