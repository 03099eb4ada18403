#include "launcher/transport/ssh_line.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace trainrun::transport {

namespace {
constexpr int turns_at_once = 64;  // of 4 KiB each from the network: libssh's own unit
}

SshLine::SshLine(std::unique_ptr<SshSession> session, std::string first_bytes, Fd link,
                 std::shared_ptr<LastWords> words)
    : session_(std::move(session)),
      api_(session_->api),
      link_(std::move(link)),
      words_(std::move(words)),
      event_(api_.ssh_event_new()),
      to_link_(std::move(first_bytes)) {
  callbacks_.size = sizeof callbacks_;
  callbacks_.userdata = this;
  callbacks_.channel_data_function = [](ssh_session, ssh_channel, void* data, std::uint32_t size,
                                        int is_stderr, void* self) {
    return static_cast<SshLine*>(self)->on_data(static_cast<const char*>(data), size, is_stderr != 0);
  };
  session_dead_ = event_ == nullptr ||
                  api_.ssh_set_channel_callbacks(session_->channel, &callbacks_) != SSH_OK ||
                  api_.ssh_event_add_session(event_, session_->session) != SSH_OK;
  // What came with the greeting may be in libssh's buffer already; nothing else would announce it.
  const int buffered = session_dead_ ? 0 : api_.ssh_channel_poll(session_->channel, 0);
  if (buffered > 0) left_in_libssh_ = static_cast<std::size_t>(buffered);
}

SshLine::~SshLine() {
  if (event_ == nullptr) return;
  api_.ssh_remove_channel_callbacks(session_->channel, &callbacks_);
  api_.ssh_event_remove_session(event_, session_->session);
  api_.ssh_event_free(event_);
}

// Called by libssh with all it holds; what is not taken stays there and keeps the window closed. Reading it
// by ssh_channel_read would open the window whatever is still held: that is done for exactly what is left, at
// once.
int SshLine::on_data(const char* data, std::size_t size, bool is_stderr) {
  if (is_stderr) {
    words_->add({data, size});
    return static_cast<int>(size);
  }
  if (link_broken_) return static_cast<int>(size);
  std::size_t taken = 0;
  if (to_link_.empty() && !link_full_ && left_in_libssh_ == 0) taken = write_link(data, size);
  left_in_libssh_ = size - taken;
  return static_cast<int>(taken);
}

std::size_t SshLine::write_link(const char* data, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const auto count = send(link_.get(), data + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      link_full_ = true;
    } else {  // the launcher closed its end: nobody wants the rest
      link_broken_ = true;
      to_link_.clear();
      return size;
    }
    break;
  }
  return done;
}

void SshLine::flush_link() {
  link_full_ = false;
  if (!to_link_.empty()) to_link_.erase(0, write_link(to_link_.data(), to_link_.size()));
  std::array<char, 64 * 1024> buffer;  // not zeroed: it is used for every packet
  while (left_in_libssh_ > 0 && to_link_.empty()) {
    // All that is left in one go, also what the launcher cannot take yet.
    while (left_in_libssh_ > 0) {
      const auto size = static_cast<std::uint32_t>(std::min(left_in_libssh_, buffer.size()));
      const int count = api_.ssh_channel_read_nonblocking(session_->channel, buffer.data(), size, 0);
      if (count <= 0) {
        left_in_libssh_ = 0;
        break;
      }
      left_in_libssh_ -= static_cast<std::size_t>(count);
      const auto got = static_cast<std::size_t>(count);
      const auto written = to_link_.empty() && !link_full_ ? write_link(buffer.data(), got) : 0;
      if (!link_broken_) to_link_.append(buffer.data() + written, got - written);
    }
  }
}

bool SshLine::channel_takes_bytes() const {
  return !session_dead_ && !eof_sent_ &&
         (api_.ssh_get_poll_flags(session_->session) & SSH_WRITE_PENDING) == 0 &&
         api_.ssh_channel_is_closed(session_->channel) == 0 &&
         api_.ssh_channel_window_size(session_->channel) > 0;
}

bool SshLine::read_link() {
  if (!channel_takes_bytes()) return false;
  std::array<char, 64 * 1024> buffer;  // not zeroed: it is used for every packet
  if (to_channel_.empty() && !link_eof_) {
    const auto size = std::min<std::size_t>(buffer.size(), api_.ssh_channel_window_size(session_->channel));
    const auto count = recv(link_.get(), buffer.data(), size, MSG_DONTWAIT);
    if (count > 0) to_channel_.assign(buffer.data(), static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
      link_eof_ = true;
  }
  if (to_channel_.empty()) {
    if (!link_eof_) return false;
    eof_sent_ = true;
    api_.ssh_channel_send_eof(session_->channel);
    const unsigned int limit_ms = 30'000;  // nobody watches this connection any more: let the kernel do it
    setsockopt(socket(), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
    return true;
  }
  const int count = api_.ssh_channel_write(session_->channel, to_channel_.data(),
                                           static_cast<std::uint32_t>(to_channel_.size()));
  if (count < 0) {
    session_dead_ = true;
    return false;
  }
  to_channel_.erase(0, static_cast<std::size_t>(count));
  return count > 0;
}

bool SshLine::move() {
  bool more = true;
  for (int i = 0; i < turns_at_once && more; ++i) {
    more = false;
    if (!session_dead_) {
      const int rc = api_.ssh_event_dopoll(event_, 0);
      if (rc == SSH_ERROR) session_dead_ = true;
      more = rc == SSH_OK;
    }
    if (!session_dead_ && read_link()) more = true;
  }
  if (!session_dead_) acknowledge_at_once(socket());
  if (!link_broken_ && (!to_link_.empty() || left_in_libssh_ > 0)) flush_link();
  const bool no_more_output = session_dead_ || api_.ssh_channel_is_eof(session_->channel) != 0;
  if (no_more_output && !link_shut_ && to_link_.empty() && left_in_libssh_ == 0) {
    link_shut_ = true;
    shutdown(link_.get(), SHUT_WR);
  }
  return more;
}

bool SshLine::finished() const {
  const bool over = session_dead_ || api_.ssh_channel_is_closed(session_->channel) != 0;
  return over && (link_broken_ || (to_link_.empty() && left_in_libssh_ == 0));
}

bool SshLine::flushed() const {
  if (session_dead_) return true;
  if (!to_channel_.empty() || (api_.ssh_get_poll_flags(session_->session) & SSH_WRITE_PENDING) != 0)
    return false;
  char byte = 0;
  return eof_sent_ || recv(link_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

short SshLine::link_events() const {
  int events = 0;
  if (!link_eof_ && to_channel_.empty() && channel_takes_bytes()) events |= POLLIN;
  if (!link_broken_ && (!to_link_.empty() || left_in_libssh_ > 0)) events |= POLLOUT;
  return static_cast<short>(events);
}

short SshLine::session_events() const {
  if (session_dead_) return 0;
  const bool writing = (api_.ssh_get_poll_flags(session_->session) & SSH_WRITE_PENDING) != 0;
  return static_cast<short>(POLLIN | (writing ? POLLOUT : 0));
}

}  // namespace trainrun::transport
