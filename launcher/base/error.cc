#include "launcher/base/error.h"

namespace trainrun {

std::string to_string(Code code) {
  switch (code) {
    case Code::usage:
      return "usage";
    case Code::config:
      return "config";
    case Code::unreachable:
      return "unreachable";
    case Code::host_key:
      return "host_key";
    case Code::auth:
      return "auth";
    case Code::bootstrap:
      return "bootstrap";
    case Code::protocol:
      return "protocol";
    case Code::not_found:
      return "not_found";
    case Code::not_executable:
      return "not_executable";
    case Code::lost:
      return "lost";
    case Code::timeout:
      return "timeout";
    case Code::refused:
      return "refused";
    case Code::try_again:
      return "try_again";
    case Code::internal:
      return "internal";
  }
  return "internal";
}

}  // namespace trainrun
