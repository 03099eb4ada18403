// The list of `-H`, `--host`, `--hosts`: `gpu1:8,alice@gpu2:8,node[01-04]:2`.
#pragma once

#include <string_view>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/error.h"

namespace trainrun::hosts {

// Items as in host_grammar.h, separated by commas (those inside brackets belong to a range); blanks around an
// item and one comma at the end are ignored. `origin` says in errors where the text came from ("-H"). At
// least one host is given back; repeats are kept, see merge.h.
Result<std::vector<Host>> parse_host_list(std::string_view text, std::string_view origin);

}  // namespace trainrun::hosts
