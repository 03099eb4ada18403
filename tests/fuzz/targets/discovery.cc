// What a discovery script prints, plain lines and JSON, and what becomes of one answer after another.
#include <optional>

#include "host-discovery/host_key.h"
#include "host-discovery/poller.h"
#include "host-discovery/script.h"
#include "launcher/base/strings.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

namespace {

void check_listing(const hosts::Listing& listing) {
  check_hosts(listing.hosts);
  std::unordered_set<std::string> names;
  for (const auto& host : listing.hosts) {
    FUZZ_CHECK(names.insert(hosts::name_key(host.name)).second);
    FUZZ_CHECK(!listing.removes(host));
  }
}

std::optional<hosts::Listing> read(std::string_view text) {
  auto listing = hosts::parse_script(text, 2);
  if (listing) {
    check_listing(*listing);
    accepted();
    return std::move(*listing);
  }
  // One machine that is named twice as two users is no matter of one line.
  if (listing.error().message.starts_with("line ")) {
    check_line_number(listing.error(), "line ", lines_in(text));
  } else {
    check_error(listing.error());
  }
  return std::nullopt;
}

}  // namespace

// Answers are divided by lines of "--".
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto rest = text_of(data, size);
  hosts::Poller poller;
  for (int count = 0; count < 8; ++count) {
    const auto end = rest.find("\n--\n");
    const auto answer = rest.substr(0, end);
    const auto listing = read(answer);
    const auto before = poller.hosts();
    const auto told = listing ? poller.answer(*listing) : poller.failure("it failed");
    for (const auto& line : told.say) FUZZ_CHECK(!line.empty() && !has_control(line));
    if (told.hosts) {
      check_hosts(told.hosts->hosts);
      FUZZ_CHECK(*told.hosts == poller.hosts());
      FUZZ_CHECK(told.hosts->revision > before.revision);
    } else {
      FUZZ_CHECK(poller.hosts() == before);
    }
    // Once more the same: after it everything that the answer names, and nothing else, is what we work with.
    if (listing) {
      static_cast<void>(poller.answer(*listing));
      FUZZ_CHECK(poller.hosts().hosts.size() == listing->hosts.size());
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 4);
  }
  return 0;
}
