// Errors of many hosts in few lines. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/base/id.h"

namespace trainrun::core {

using HostErrors = std::vector<std::pair<HostIndex, Error>>;

// Errors that are alike but for the host's name before the colon become one, "9998 hosts: no route to host
// (gpu1, gpu2, ...)", when there are more than three; in the order of the first of each kind. Their hints are
// shared, see below.
std::vector<Error> grouped(const HostErrors& errors, const std::function<std::string(HostIndex)>& name);

// Commands in hints that are alike but for HOST in `... HOST >> FILE` become one, at the last of these
// errors, with all hosts in its place; the others lose their hint.
void share_hints(std::vector<Error>& errors);

// What an error says besides "name: ".
std::string_view without_name(std::string_view message, std::string_view name);

}  // namespace trainrun::core
