// One ssh process and the bootstrap's talk with it; what OpensshTransport's thread keeps of each host.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "launcher/base/fd.h"
#include "launcher/transport/bootstrap.h"
#include "launcher/transport/dial_job.h"
#include "launcher/transport/last_words.h"
#include "launcher/transport/transport.h"

namespace trainrun::transport {

class OpensshChild {
 public:
  // Starts ssh in a session of its own. `command_line` is openssh_arguments'.
  static Result<std::unique_ptr<OpensshChild>> start(DialJob job,
                                                     const std::vector<std::string>& command_line,
                                                     const AgentImage& image, std::string nonce,
                                                     Bootstrap how);
  ~OpensshChild();  // the process has been reaped, or is killed
  OpensshChild(const OpensshChild&) = delete;
  OpensshChild& operator=(const OpensshChild&) = delete;

  [[nodiscard]] bool talking() const { return static_cast<bool>(link_); }
  [[nodiscard]] Instant deadline() const { return job_.deadline(); }  // of the talk
  [[nodiscard]] int link() const { return link_.get(); }
  [[nodiscard]] short link_events() const;
  [[nodiscard]] int stderr_fd() const { return stderr_.get(); }
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }

  void talk();         // the link is readable or writable
  void hear_stderr();  // takes what is there
  // After reap(): the host hung up before the login. The dial has not been answered, and is to be done again.
  [[nodiscard]] bool wants_another() const { return again_; }
  [[nodiscard]] DialJob& job() { return job_; }
  void late();                    // the deadline passed
  bool reap();                    // true: the process has ended
  void signal(int number) const;  // to ssh and its ProxyCommand

 private:
  OpensshChild(DialJob job, BootstrapDialogue dialogue, std::string_view image);
  void give_up(Error error);

  DialJob job_;
  BootstrapDialogue dialogue_;
  const std::string_view image_;
  std::string_view to_send_;
  bool again_ = false;
  pid_t pid_ = -1;
  Fd link_, stderr_, pidfd_;
  std::shared_ptr<LastWords> words_ = std::make_shared<LastWords>();
  bool link_ended_ = false;  // no more bytes will come; the process's end says why
};

}  // namespace trainrun::transport
