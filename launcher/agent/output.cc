#include "launcher/agent/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>

namespace trainrun::agent {

using boost::asio::posix::stream_descriptor;

namespace {
constexpr std::size_t largest_read = 64u << 10;  // a pipe's usual capacity: one read empties it
}

struct OutputPump::Pipe {
  explicit Pipe(boost::asio::io_context& context) : descriptor(context) {}
  stream_descriptor descriptor;
  bool ended = false, starved = false;
  std::size_t marked = 0;  // of what was marked, so much is still in the pipe
};

void CreditPool::add(std::uint64_t bytes) {
  bytes_ += bytes;
  while (bytes_ > 0 && !waiting_.empty()) {
    const auto pump = waiting_.front().lock();
    waiting_.pop_front();
    if (!pump) continue;
    pump->pipe_->starved = false;
    pump->pump();
  }
}

OutputPump::OutputPump(io::Loop& loop, CreditPool& credit, Fd pipe, Handlers handlers)
    : credit_(credit), handlers_(std::move(handlers)), pipe_(std::make_unique<Pipe>(loop.context())) {
  set_nonblocking(pipe.get(), true);
  pipe_->descriptor.assign(pipe.release());
}
OutputPump::~OutputPump() = default;

std::shared_ptr<OutputPump> OutputPump::start(io::Loop& loop, CreditPool& credit, Fd pipe,
                                              Handlers handlers) {
  std::shared_ptr<OutputPump> pump(new OutputPump(loop, credit, std::move(pipe), std::move(handlers)));
  pump->wait();
  return pump;
}

void OutputPump::stop() {
  pipe_->ended = true;
  boost::system::error_code ignored;
  pipe_->descriptor.close(ignored);
}

void OutputPump::mark() {
  int waiting = 0;
  const bool known = !pipe_->ended && ::ioctl(pipe_->descriptor.native_handle(), FIONREAD, &waiting) == 0;
  pipe_->marked = known ? static_cast<std::size_t>(waiting) : 0;
}

bool OutputPump::marked_is_through() const { return pipe_->ended || pipe_->marked == 0; }

void OutputPump::wait() {
  pipe_->descriptor.async_wait(stream_descriptor::wait_read,
                               [weak = weak_from_this()](const boost::system::error_code& error) {
                                 const auto self = weak.lock();
                                 if (self && !error) self->pump();
                               });
}

void OutputPump::pump() {
  if (pipe_->ended || pipe_->starved) return;
  if (credit_.bytes_ == 0) {
    pipe_->starved = true;
    credit_.waiting_.push_back(weak_from_this());
    return;
  }
  read();
  if (!pipe_->ended) wait();
}

void OutputPump::read_now() {
  if (!pipe_->ended && !pipe_->starved && credit_.bytes_ > 0) read();
}

void OutputPump::read() {
  static std::array<char, largest_read> buffer;  // one thread, and the bytes are handed on at once
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(credit_.bytes_, buffer.size()));
  const ssize_t n = ::read(pipe_->descriptor.native_handle(), buffer.data(), most);
  if (n > 0) {
    credit_.bytes_ -= static_cast<std::uint64_t>(n);
    pipe_->marked -= std::min(pipe_->marked, static_cast<std::size_t>(n));
    handlers_.bytes({buffer.data(), static_cast<std::size_t>(n)});
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    stop();
    if (const auto ended = std::exchange(handlers_.ended, nullptr)) ended();
  }
}

}  // namespace trainrun::agent
