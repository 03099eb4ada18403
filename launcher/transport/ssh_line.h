// One session's traffic: channel on the one side, the launcher's socketpair on the other. Belongs to the pump
// thread.
#pragma once

#include <memory>
#include <string>

#include "launcher/transport/last_words.h"
#include "launcher/transport/ssh_session.h"

namespace trainrun::transport {

class SshLine {
 public:
  SshLine(std::unique_ptr<SshSession> session, std::string first_bytes, Fd link,
          std::shared_ptr<LastWords> words);
  ~SshLine();
  SshLine(const SshLine&) = delete;
  SshLine& operator=(const SshLine&) = delete;

  // Moves what can be moved now, both ways, up to some 256 KiB. True: there may be more.
  bool move();
  void link_hung_up() { link_hung_up_ = true; }  // poll said so: the launcher closed its end

  [[nodiscard]] bool finished() const;      // nothing will be moved any more
  [[nodiscard]] bool flushed() const;       // all that the launcher wrote has gone out
  [[nodiscard]] short link_events() const;  // poll's, to wait for
  [[nodiscard]] short session_events() const;
  [[nodiscard]] int link() const { return link_.get(); }
  [[nodiscard]] int socket() const { return session_->socket.get(); }
  [[nodiscard]] bool link_is_hung_up() const { return link_hung_up_; }

 private:
  int on_data(const char* data, std::size_t size, bool is_stderr);
  std::size_t write_link(const char* data, std::size_t size);
  void flush_link();
  bool read_link();
  [[nodiscard]] bool channel_takes_bytes() const;

  std::unique_ptr<SshSession> session_;
  const SshApi& api_;
  Fd link_;
  std::shared_ptr<LastWords> words_;
  ssh_event event_;
  ssh_channel_callbacks_struct callbacks_{};
  std::string to_link_;  // already out of libssh, not yet taken by the launcher
  std::size_t left_in_libssh_ = 0;
  std::string to_channel_;  // read from the launcher, not yet taken by libssh (a new key exchange is on)
  bool link_full_ = false, link_eof_ = false, link_hung_up_ = false, link_broken_ = false;
  bool eof_sent_ = false, link_shut_ = false, session_dead_ = false;
};

}  // namespace trainrun::transport
