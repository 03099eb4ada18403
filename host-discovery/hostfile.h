// Host files as mpirun, Hydra, horovodrun, DeepSpeed and batch systems write them.
//
//   gpu1 slots=8                          # mpirun, horovodrun, DeepSpeed; also `slots = 8`, count=, cpu=
//   gpu2:8 user=bob                       # Hydra
//   alice@gpu3 slots=4 max_slots=8        // a name given twice adds up
//   node[01-16] slots=8 /* a range */
//   ssh://root@203.0.113.7:41022 slots=1 identity=~/.ssh/rented
//
// One line, one item (host_grammar.h), then key=value words: slots (count, cpu), max_slots (checked against
// slots, otherwise without effect), user (username), port, identity, and binding (Hydra's; without effect,
// see --bind-to). Values hold no blanks. Blank lines, CRLF, a UTF-8 byte order mark and the three kinds of
// comment are understood; a comment begins at the start of a word.
#pragma once

#include <string_view>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/error.h"

namespace trainrun::hosts {

// `path` is for errors only, which read `path:line: ...`. At least one host is given back; repeats are kept,
// see merge.h. Limits: 4 MiB, 64 KiB a line, 65536 hosts.
Result<std::vector<Host>> parse_hostfile(std::string_view content, std::string_view path);

}  // namespace trainrun::hosts
