// The agent's program, embedded in trainrun: what is uploaded to a host that does not have it yet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainrun::transport {

struct AgentImage {
  std::string_view bytes;  // a static executable
  std::string sha256;      // of the bytes, 64 hex digits: the name and the version of the agent
  std::string machine;     // what `uname -m` must say where it runs
};

const AgentImage& agent_image();

// Where a host that shares this machine's installation (a common file system, the same package) would have
// that agent. Only paths that nobody but root and this user can write to: another host's user must not be
// able to plant a program there.
std::vector<std::string> installed_agents(const AgentImage& image);

}  // namespace trainrun::transport
