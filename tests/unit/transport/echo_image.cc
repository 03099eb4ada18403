#include "tests/unit/transport/echo_image.h"

#include "tests/unit/transport/local_sshd.h"

namespace trainrun::testing {

const transport::AgentImage& echo_image() {
  static const std::string bytes = read_text(TRAINRUN_ECHO_AGENT);
  static const transport::AgentImage image{bytes,
                                           run_program({"sha256sum", TRAINRUN_ECHO_AGENT}).out.substr(0, 64),
                                           transport::agent_image().machine};
  return image;
}

}  // namespace trainrun::testing
