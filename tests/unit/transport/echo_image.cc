#include "tests/unit/transport/echo_image.h"

#include <sys/utsname.h>

#include "tests/unit/transport/local_sshd.h"

namespace trainrun::testing {
namespace {

std::string own_machine() {
  utsname names{};
  return ::uname(&names) == 0 ? names.machine : "";
}

}  // namespace

const transport::AgentImage& echo_image() {
  static const std::string bytes = read_text(TRAINRUN_ECHO_AGENT);
  static const transport::AgentImage image{
      bytes, run_program({"sha256sum", TRAINRUN_ECHO_AGENT}).out.substr(0, 64), own_machine()};
  return image;
}

}  // namespace trainrun::testing
