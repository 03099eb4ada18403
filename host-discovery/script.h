// What a discovery script may print, and what it means.
//
//   gpu1                     one host a line; slots are --slots-per-host
//   gpu2:8                   8 slots: what horovodrun's scripts print
//   gpu3 slots=8 zone=b      or as a word; user=, port= and identity= are known too, other keys are ignored
//   gpu4 gpus=4              gives the slots when nothing else does
//   alice@node[01-16]:8      a user, a range
//   [fd00::5]:8              IPv6 addresses stand in brackets
//   {"host": "gpu5", "slots": 8}     a JSON object a line: host, slots, gpus, user, port, identity
//   !gpu6                    leave this host now; `gpu6:0`, slots=0 and gpus=0 mean the same
//   # comment                blank lines, CRLF and a last line without end are understood
//
// The order is kept; it is the order of new hosts' ranks. Slots of a host that is named twice add up. One bad
// line makes the whole answer bad: half a list is worse than the last good one. No line at all is an answer,
// too: no host is there.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "host-discovery/host.h"
#include "host-discovery/this_machine.h"
#include "launcher/base/error.h"

namespace trainrun::hosts {

inline constexpr std::size_t most_output = 10'000'000;  // bytes of one answer

// One answer of a discovery.
struct Listing {
  std::vector<Host> hosts;  // each once, none that `removed` names
  // Hosts that are to be left at once: host_key(), where an empty user or port 0 stands for any.
  std::unordered_set<std::string> removed{};

  [[nodiscard]] bool removes(const Host& host) const;
  // Hosts that `removed` names are dropped, and mentions of one host become one (merge.h).
  Result<void> tidy(int default_slots, const IsThisMachine& is_this_machine);
};

// `default_slots` is for hosts without a count. All that is this machine are one host (merge.h); without
// `is_this_machine` nothing is. Errors read `line 3: ...`. Limits: most_output, 64 KiB a line, 65536 hosts.
Result<Listing> parse_script(std::string_view text, int default_slots,
                             const IsThisMachine& is_this_machine = {});

}  // namespace trainrun::hosts
