// One host brought up over libssh, from its name to an agent that speaks. Straight-line blocking code for a
// dial thread; every wait has the dial's deadline and ends when the dial is called off.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host-discovery/host.h"
#include "launcher/base/error.h"
#include "launcher/base/fd.h"
#include "launcher/core/job_spec.h"
#include "launcher/transport/agent_image.h"
#include "launcher/transport/bootstrap.h"
#include "launcher/transport/dial_socket.h"
#include "launcher/transport/ssh_api.h"

namespace trainrun::transport {

// What every dial of one transport has in common. Not changed after the start; read by many threads.
struct SshPlan {
  SshOptions options;
  const AgentImage* image = nullptr;
  std::vector<std::string> places;  // bootstrap_line's
  bool log = false;                 // libssh's own goes to our stderr
};

// A session of libssh with its one channel; belongs to one thread at a time.
class SshSession {
 public:
  SshSession(const SshApi& api, std::string host);
  ~SshSession();
  SshSession(const SshSession&) = delete;
  SshSession& operator=(const SshSession&) = delete;

  const SshApi& api;
  const std::string host;
  ssh_session session = nullptr;
  ssh_channel channel = nullptr;
  Fd socket;  // ours, beside libssh's own duplicate: to wait on, and to set its options
  int libssh_socket = -1;
  std::string remark;  // of the login, for -v: what was passed over

  // Why libssh's last call failed, in its words.
  [[nodiscard]] std::string words() const;
  // Calls `call` until it gives something else than `again`; waits for the socket in between.
  template <class Call>
  Result<int> drive(const DialLimit& time_limit, int again, const char* step, Call call) {
    for (;;) {
      const int rc = call();
      acknowledge_at_once(socket.get());
      if (rc != again) return rc;
      if (auto waited = wait(time_limit, step); !waited) return tl::unexpected(waited.error());
    }
  }
  Result<void> wait(const DialLimit& time_limit, const char* step);
};

struct SshDialled {
  std::unique_ptr<SshSession> session;
  std::string first_bytes;  // what the agent said after its greeting
  std::string noise;
  std::string last_words;  // stderr until now, at most 4 KiB
};

// Resolve, connect, key exchange, host key, authentication, channel, bootstrap.
Result<SshDialled> bring_up(const SshPlan& plan, const Host& host, Bootstrap how,
                            const DialLimit& time_limit);

}  // namespace trainrun::transport
