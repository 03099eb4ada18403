// The ssh transport over OpenSSH's own client, one process a host: for sites whose set-up libssh cannot
// follow (ProxyJump, GSSAPI, FIDO keys, certificates). The link is the client's stdin and stdout itself.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/io/loop.h"
#include "launcher/transport/agent_image.h"
#include "launcher/transport/answers.h"
#include "launcher/transport/openssh_dial.h"
#include "launcher/transport/transport.h"

namespace trainrun::transport {

class OpensshTransport : public Transport {
 public:
  // `image` must outlive it. `places`: see bootstrap_line.
  OpensshTransport(io::Loop& loop, SshOptions options, const AgentImage& image,
                   std::vector<std::string> places);
  ~OpensshTransport() override;  // ends and reaps every ssh, within 0.6 s
  void dial(const Host& host, Duration within, DialDone done) override;

 private:
  void start_next();

  io::Loop& loop_;
  const OpensshDial::Shared shared_;
  Answers answers_;
  std::uint32_t last_ = 0;
  std::map<std::uint32_t, std::unique_ptr<OpensshDial>> dials_;  // until their ssh has ended
  std::deque<std::uint32_t> waiting_;                            // not begun
  io::Timer starter_;
};

}  // namespace trainrun::transport
