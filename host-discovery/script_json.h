// A line of JSON as the words of a plain line. The only file here that knows the JSON library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/error.h"

namespace trainrun::hosts {

// {"host": "gpu1", "slots": 8, "zone": "b"} -> gpu1 slots=8. An IPv6 address gets its brackets, null is as
// good as absent, keys that no plain line knows are left out. What the values may be is the plain line's
// business.
Result<std::vector<std::string>> words_of_json(std::string_view line);

}  // namespace trainrun::hosts
