#include "launcher/agent/stream_relay.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <utility>

#include "launcher/wire/messages.h"

namespace trainrun::agent {

using boost::asio::posix::stream_descriptor;

struct StreamRelay::Socket : stream_descriptor {
  using stream_descriptor::stream_descriptor;
};

StreamRelay::StreamRelay(io::Loop& loop, int fd, StreamId stream, const StreamHandlers& handlers,
                         std::function<void()> gone)
    : handlers_(handlers),
      socket_(std::make_unique<Socket>(loop.context(), fd)),
      stream_(stream),
      gone_(std::move(gone)) {}
StreamRelay::~StreamRelay() = default;

void StreamRelay::wait() {
  if (waiting_ || told_end_ || under_way_ >= wire::stream_window) return;
  waiting_ = true;
  socket_->async_wait(stream_descriptor::wait_read,
                      [weak = weak_from_this()](const boost::system::error_code& error) {
                        const auto self = weak.lock();
                        if (self && !error) self->readable();
                      });
}

void StreamRelay::readable() {
  waiting_ = false;
  char buffer[16384];
  const ssize_t n = ::read(socket_->native_handle(), buffer, sizeof buffer);
  if (n > 0) {
    under_way_ += static_cast<std::uint64_t>(n);
    handlers_.data(stream_, {buffer, static_cast<std::size_t>(n)}, false);
    return wait();
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return wait();
  told_end_ = true;
  handlers_.data(stream_, {}, true);
  if (done()) gone_();
}

void StreamRelay::give(std::string_view bytes, bool end) {
  ending_ |= end;
  pending_ += bytes;
  if (!writing_) write();
}

void StreamRelay::write() {
  writing_ = false;
  while (!pending_.empty() && socket_->is_open()) {
    // The end goes with the last bytes.
    const ssize_t n = ::send(socket_->native_handle(), pending_.data(), pending_.size(),
                             MSG_NOSIGNAL | (ending_ ? MSG_MORE : 0));
    if (n > 0) {
      pending_.erase(0, static_cast<std::size_t>(n));
      took(static_cast<std::uint64_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      writing_ = true;
      socket_->async_wait(stream_descriptor::wait_write,
                          [weak = weak_from_this()](const boost::system::error_code& error) {
                            const auto self = weak.lock();
                            if (self && !error) self->write();
                          });
      return;
    } else if (n >= 0 || errno != EINTR) {
      if (!std::exchange(told_end_, true)) handlers_.data(stream_, {}, true);
      return gone_();
    }
  }
  if (ending_ && socket_->is_open()) ::shutdown(socket_->native_handle(), SHUT_WR);
  if (done()) gone_();
}

void StreamRelay::took(std::uint64_t bytes) {
  owed_ += bytes;
  if (owed_ < wire::stream_window / 4) return;
  if (handlers_.taken) handlers_.taken(stream_, owed_);
  owed_ = 0;
}

void StreamRelay::taken(std::uint64_t bytes) {
  under_way_ -= std::min(under_way_, bytes);
  wait();
}

}  // namespace trainrun::agent
