// One entry a machine: what was named twice adds up.
#pragma once

#include <vector>

#include "host-discovery/host.h"
#include "host-discovery/this_machine.h"
#include "launcher/base/error.h"

namespace trainrun::hosts {

// To Horovod localhost and 127.0.0.1 are two hosts.
enum class Mentions : std::uint8_t { of_one_machine, of_one_name };

// Hosts of the same name (host_key.h) and, as mentions `of_one_machine`, all that is this machine under
// whatever name, become one entry at the place and under the name of the first; their slots are added. A
// mention without a count stands for `default_slots` (at least 1); slots_given tells afterwards whether any
// mention had one. A user, port or identity that only one mention has holds for the entry; two different ones
// are an Error, since one machine has one agent. What is this machine needs no login: its user is dropped.
// `is_this_machine` is asked once a mention; without it nothing is.
Result<std::vector<Host>> merge_hosts(std::vector<Host> hosts, int default_slots,
                                      const IsThisMachine& is_this_machine,
                                      Mentions mentions = Mentions::of_one_machine);

// A list that repeats a host counts its slots that way, as batch systems do: of a host that is mentioned more
// than once each mention without a count is one slot.
void count_repeats(std::vector<Host>& hosts, const IsThisMachine& is_this_machine,
                   Mentions mentions = Mentions::of_one_machine);

// Whether a host of one list is meant by a mention in another.
bool mean_one_host(const Host& host, const Host& mention, const IsThisMachine& is_this_machine);

}  // namespace trainrun::hosts
