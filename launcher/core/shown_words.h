// A command line as people and logs may see it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainrun::core {

constexpr std::string_view redacted = "<redacted>";

// `--api-key=xyz` and `--api-key xyz` lose the xyz, and a URL with a password all of it; `--max-tokens 512`
// is no secret. By names alone: env_forward.h knows those of credentials.
std::vector<std::string> shown_words(const std::vector<std::string>& argv);

}  // namespace trainrun::core
