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
// (gpu1, gpu2, ...)", when there are more than three; in the order of the first of each kind.
std::vector<Error> grouped(const HostErrors& errors, const std::function<std::string(HostIndex)>& name);

// What an error says besides "name: ".
std::string_view without_name(std::string_view message, std::string_view name);

}  // namespace trainrun::core
