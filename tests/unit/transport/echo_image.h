// The echo agent (echo_agent.cc) as an image to deploy, whatever agent trainrun itself embeds.
#pragma once

#include "launcher/transport/agent_image.h"

namespace trainrun::testing {

const transport::AgentImage& echo_image();

}  // namespace trainrun::testing
