#include "launcher/agent/stdin_relay.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <string>
#include <utility>

namespace trainrun::agent {

using boost::asio::posix::stream_descriptor;

namespace {

std::uint64_t bytes_in(int pipe) {
  int bytes = 0;
  return ::ioctl(pipe, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

}  // namespace

struct StdinRelay::Pipe {
  explicit Pipe(boost::asio::io_context& context) : descriptor(context) {}
  stream_descriptor descriptor;
  std::string bytes;
  bool end = false, waiting = false;
  std::size_t taken = 0;                  // since we last asked
  std::uint64_t written = 0, unread = 0;  // unread: when it was closed, if nothing tells since
  Fd rest{};                              // its other end: only to see what is left in it after the end
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
  if (!pipe_->descriptor.is_open()) return;
  const int fd = pipe_->descriptor.native_handle();
  // The worker reads on after the end. Before it, a second reader would hide that the worker has closed its
  // own.
  if (pipe_->end && pipe_->bytes.empty())
    pipe_->rest =
        Fd(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  else
    pipe_->unread = bytes_in(fd);
  boost::system::error_code ignored;
  pipe_->descriptor.close(ignored);
}

std::uint64_t StdinRelay::taken() const {
  const auto unread = pipe_->descriptor.is_open() ? bytes_in(pipe_->descriptor.native_handle())
                      : pipe_->rest               ? bytes_in(pipe_->rest.get())
                                                  : pipe_->unread;
  return pipe_->written - std::min(pipe_->written, unread);
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
      pipe_->written += static_cast<std::size_t>(n);
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
