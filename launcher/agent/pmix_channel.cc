#include "launcher/agent/pmix_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <utility>

namespace trainrun::agent {

using boost::asio::posix::stream_descriptor;

namespace {
constexpr int reads_a_turn = 64;  // of 64 KiB at least; then others get their turn
}

struct PmixChannel::State : std::enable_shared_from_this<State> {
  State(io::Loop& loop, Handlers given) : handlers(std::move(given)), socket(loop.context()) {}

  void wait() {
    socket.async_wait(stream_descriptor::wait_read,
                      [weak = weak_from_this()](const boost::system::error_code& error) {
                        const auto self = weak.lock();
                        if (!self || error) return;
                        self->read();
                        if (self->socket.is_open()) self->wait();
                      });
  }

  void read() {
    if (std::exchange(reading, true)) return;
    for (int i = 0; i < reads_a_turn && socket.is_open(); ++i) {
      const auto space = reader.space();
      const ssize_t n = ::read(socket.native_handle(), space.data, space.size);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
      if (n <= 0) {
        close();
        break;
      }
      reader.filled(static_cast<std::size_t>(n));
      while (const auto frame = reader.next()) {
        if (!socket.is_open()) break;
        handlers.frame(*frame);
      }
      if (reader.failed()) close();
    }
    reading = false;
  }

  void write() {
    while (!pending.empty() && socket.is_open()) {
      const ssize_t n = ::send(socket.native_handle(), pending.data(), pending.size(), MSG_NOSIGNAL);
      if (n > 0) {
        pending.erase(0, static_cast<std::size_t>(n));
      } else if (n < 0 && errno == EAGAIN) {
        return socket.async_wait(stream_descriptor::wait_write,
                                 [weak = weak_from_this()](const boost::system::error_code& error) {
                                   const auto self = weak.lock();
                                   if (self && !error) self->write();
                                 });
      } else if (n >= 0 || errno != EINTR) {
        return;  // the reader finds out
      }
    }
  }

  void close() {
    if (!socket.is_open()) return;
    boost::system::error_code ignored;
    socket.close(ignored);
    pending.clear();
    const auto tell = std::exchange(handlers.closed, nullptr);
    if (tell) tell();
  }

  Handlers handlers;
  stream_descriptor socket;
  wire::FrameReader reader;
  std::string pending;
  bool reading = false;
};

PmixChannel::PmixChannel(io::Loop& loop, Fd socket, Handlers handlers)
    : state_(std::make_shared<State>(loop, std::move(handlers))) {
  set_nonblocking(socket.get(), true);
  state_->socket.assign(socket.release());
  state_->wait();
}

PmixChannel::~PmixChannel() {
  state_->handlers = {[](const wire::Frame&) {}, nullptr};
  state_->close();
}

void PmixChannel::read_all() {
  const auto self = state_;
  self->read();
}

void PmixChannel::write(std::string bytes) {
  const bool writing = !state_->pending.empty();
  state_->pending += bytes;
  if (!writing) state_->write();
}

}  // namespace trainrun::agent
