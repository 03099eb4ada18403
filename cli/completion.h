// `trainrun completion bash|zsh|fish`: completion scripts, made from the table of options.
#pragma once

#include <string>
#include <string_view>

#include "launcher/base/error.h"

namespace trainrun::cli {

Result<std::string> completion(std::string_view shell);

}  // namespace trainrun::cli
