#include "launcher/transport/nonce.h"

#include <sys/random.h>

#include <array>

#include "launcher/base/strings.h"

namespace trainrun::transport {

Result<std::string> fresh_nonce() {
  std::array<char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return fail(Code::internal, "getrandom: " + errno_text(errno));
  }
  return hex({bytes.data(), bytes.size()});
}

}  // namespace trainrun::transport
