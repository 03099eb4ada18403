// One entry a machine: what was named twice adds up.
#pragma once

#include <functional>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/error.h"

namespace trainrun::hosts {

// Hosts of the same name (case and a final dot do not matter), and all that `is_this_host` knows as this
// machine under whatever name, become one entry at the place and under the name of the first; their slots are
// added. A mention without a count stands for `default_slots` (at least 1); slots_given tells afterwards
// whether any mention had one. A user, port or identity that only one mention has holds for the entry; two
// different ones are an Error, since one machine has one agent. `is_this_host` is asked once a mention.
Result<std::vector<Host>> merge_hosts(std::vector<Host> hosts, int default_slots,
                                      const std::function<bool(const Host&)>& is_this_host);

}  // namespace trainrun::hosts
