// A command line as people and logs may see it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainrun::core {

constexpr std::string_view redacted = "<redacted>";

// `--api-key=xyz`, `--api-key xyz`, `{"api_key": "xyz"}` and `Authorization: Bearer xyz` lose the xyz, a URL
// with a password all of it, and so do words like tokens of well-known services (hf_..., ghp_...);
// `--max-tokens 512` is no secret. By names and beginnings alone, so that one under another name is shown:
// env_forward.h knows the names of credentials.
std::vector<std::string> shown_words(const std::vector<std::string>& argv);

// They as one line for a shell, which can be pasted as far as nothing is redacted.
std::string shown_line(const std::vector<std::string>& argv);

// A command line for a shell, in one string.
std::string shown_command(const std::string& line);

// A variable's value by the same rules; redacted where the name is one of credentials.
std::string shown_value(const std::string& name, const std::string& value);

}  // namespace trainrun::core
