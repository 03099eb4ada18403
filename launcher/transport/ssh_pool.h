// The ssh transport over libssh: a queue of hosts, dial threads that live only while there is something to
// dial, and one pump thread for all sessions that live.
//
// Hosts that do not answer delay nobody: at most 16 threads dial, but whenever hosts wait in the queue and
// 200 ms pass in which no thread took one, as many threads again are started (up to 1024).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/io/loop.h"
#include "launcher/transport/agent_image.h"
#include "launcher/transport/answers.h"
#include "launcher/transport/transport.h"

namespace trainrun::transport {

class SshTransport : public Transport {
 public:
  // `loop` and `image` must outlive it. `places`: see bootstrap_line.
  SshTransport(io::Loop& loop, const SshOptions& options, const AgentImage& image,
               std::vector<std::string> places, bool log = false);
  ~SshTransport() override;  // within a second, whatever the dials under way wait for
  void dial(const Host& host, Duration within, DialDone done) override;

 private:
  struct State;
  void watch_queue();
  std::shared_ptr<State> state_;
  Answers answers_;
  io::Timer growth_;
  std::uint64_t taken_before_ = 0;
};

}  // namespace trainrun::transport
