// The ssh transport over OpenSSH's own client, one process a host: for sites whose set-up libssh cannot
// follow (ProxyJump, GSSAPI, FIDO keys, certificates). The link is the client's stdin and stdout itself.
#pragma once

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "launcher/base/fd.h"
#include "launcher/core/job_spec.h"
#include "launcher/io/loop.h"
#include "launcher/transport/agent_image.h"
#include "launcher/transport/answers.h"
#include "launcher/transport/dial_job.h"
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
  // One thread starts, talks to and reaps all of them, so that pids belong to one thread.
  void run();

  const SshOptions options_;
  const AgentImage& image_;
  const std::vector<std::string> places_;
  Answers answers_;
  Fd wake_;

  std::mutex mutex_;  // over the next two
  std::vector<DialJob> fresh_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace trainrun::transport
