// The user's ssh agent, which keeps keys: does it answer at all? libssh would wait for it without end.
#pragma once

#include <string>

#include "launcher/transport/dial_socket.h"

namespace trainrun::transport {

// Its socket, where libssh and ssh look for it (SSH_AUTH_SOCK); empty: there is none.
std::string key_agent();

struct AgentProblem {
  std::string why;     // "PATH: Connection refused"; empty: it answers
  bool hangs = false;  // somebody is there, and does not answer
};

// Of the agent at `path`. Waits two seconds at most. For dial threads.
AgentProblem agent_problem(const std::string& path, const DialLimit& time_limit);

}  // namespace trainrun::transport
