// What tells one dial's greeting from shell noise. Not a secret: it stands on the remote command line.
#pragma once

#include <string>

#include "launcher/base/error.h"

namespace trainrun::transport {

Result<std::string> fresh_nonce();  // 32 hex digits from the kernel

}  // namespace trainrun::transport
