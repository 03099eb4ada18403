// What OpenSSH's client says when it fails, as an Error: which hop, why, and what to try. Pure.
#pragma once

#include <string_view>

#include "host-discovery/host.h"
#include "launcher/base/error.h"

namespace trainrun::transport {

// `words`: what it printed to stderr before it gave up; `status`: how it ended. Code::try_again: a host hung
// up before anybody was logged in.
Error explain_openssh(const Host& host, std::string_view words, std::string_view status);

}  // namespace trainrun::transport
