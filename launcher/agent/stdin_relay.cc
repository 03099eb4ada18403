#include "launcher/agent/stdin_relay.h"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <utility>

namespace trainrun::agent {

using boost::asio::posix::stream_descriptor;

struct StdinRelay::Pipe {
  explicit Pipe(boost::asio::io_context& context) : descriptor(context) {}
  stream_descriptor descriptor;
  std::string bytes;
  bool end = false, waiting = false;
  std::size_t taken = 0;  // since we last asked
};

StdinRelay::StdinRelay(io::Loop& loop, Fd pipe, std::function<void(std::uint32_t)> wanted)
    : wanted_(std::move(wanted)), pipe_(std::make_unique<Pipe>(loop.context())) {
  set_nonblocking(pipe.get(), true);
  pipe_->descriptor.assign(pipe.release());
}
StdinRelay::~StdinRelay() = default;

std::shared_ptr<StdinRelay> StdinRelay::start(io::Loop& loop, Fd pipe,
                                              std::function<void(std::uint32_t)> wanted) {
  std::shared_ptr<StdinRelay> relay(new StdinRelay(loop, std::move(pipe), std::move(wanted)));
  relay->wanted_(window);
  return relay;
}

void StdinRelay::give(std::string bytes, bool end) {
  if (!pipe_->descriptor.is_open()) return;
  pipe_->bytes += bytes;
  pipe_->end |= end;
  if (!pipe_->waiting) write();
}

void StdinRelay::close() {
  boost::system::error_code ignored;
  pipe_->descriptor.close(ignored);
}

void StdinRelay::write() {
  if (!pipe_->descriptor.is_open()) return;
  std::size_t done = 0;
  while (done < pipe_->bytes.size()) {
    const ssize_t n =
        ::write(pipe_->descriptor.native_handle(), pipe_->bytes.data() + done, pipe_->bytes.size() - done);
    if (n >= 0) {
      done += static_cast<std::size_t>(n);
      pipe_->taken += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      pipe_->bytes.erase(0, done);
      pipe_->waiting = true;
      pipe_->descriptor.async_wait(stream_descriptor::wait_write,
                                   [weak = weak_from_this()](const boost::system::error_code& error) {
                                     const auto self = weak.lock();
                                     if (!self || error) return;
                                     self->pipe_->waiting = false;
                                     self->write();
                                   });
      return;
    } else if (errno != EINTR) {
      close();  // the worker closed its stdin: that is its right, and no failure
      if (!pipe_->end) wanted_(0);
      return;
    }
  }
  pipe_->bytes.clear();
  if (pipe_->end) return close();
  if (pipe_->taken > 0) wanted_(static_cast<std::uint32_t>(std::exchange(pipe_->taken, 0)));
}

}  // namespace trainrun::agent
