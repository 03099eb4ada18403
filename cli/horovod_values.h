// What horovodrun's options and its configuration file may say of Horovod's settings.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/horovod_flags.h"
#include "launcher/base/error.h"

namespace trainrun::cli {

// What the variable is set to; an Error's message ends a sentence that begins with whose value it is. A file
// has YAML's numbers, and fractions where a flag has to be a whole number: Horovod leaves them out.
Result<std::string> value_of_variable(Knob knob, const std::string& given, bool by_flag);

// True, yes, ON, ...: YAML 1.1's, which horovodrun reads.
std::optional<bool> yaml_bool(std::string_view text);

}  // namespace trainrun::cli
