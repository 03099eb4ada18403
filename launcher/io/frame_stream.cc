#include "launcher/io/frame_stream.h"

#include <poll.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>

#include "launcher/io/clock.h"
#include "launcher/io/turn.h"

namespace trainrun::io {

using boost::asio::posix::descriptor_base;
using boost::asio::posix::stream_descriptor;

namespace {
constexpr int reads_a_turn = 4;  // then others get their turn
constexpr int most_last_reads = 1024;
constexpr std::size_t keep_capacity = 1u << 20;
constexpr std::size_t write_early = 4u << 10;  // about as many orders as a peer works on for a millisecond

// A peer that is gone is told by an end of its bytes, or by one of these where ours were on their way to it.
std::string why(int error) {
  return error == ECONNRESET || error == EPIPE ? "the connection was closed" : errno_text(error);
}
}  // namespace

struct FrameStream::State : std::enable_shared_from_this<State> {
  State(Loop& loop, Fd in_fd, Fd out_fd, Handlers given)
      : context(loop.context()), in(context), out(context), handlers(std::move(given)) {
    set_nonblocking(in_fd.get(), true);
    in.assign(in_fd.release());
    if (out_fd) {
      set_nonblocking(out_fd.get(), true);
      out.assign(out_fd.release());
      two = true;
    }
  }
  stream_descriptor& writer() { return two ? out : in; }

  void wait_readable() {
    if (reading || ended) return;
    reading = true;
    in.async_wait(descriptor_base::wait_read,
                  [self = shared_from_this()](const boost::system::error_code& error) {
                    const Turn turn;
                    self->reading = false;
                    if (!error) self->readable();
                  });
  }

  void readable() {
    for (int i = 0; i < reads_a_turn && !ended; ++i) {
      const auto space = reader.space();
      const ssize_t n = ::read(in.native_handle(), space.data, space.size);
      if (n < 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) break;
        return end(why(errno));
      }
      if (n == 0) return end("the connection was closed");
      reader.filled(static_cast<std::size_t>(n));
      if (handlers.heard) handlers.heard();
      deliver();
      if (static_cast<std::size_t>(n) < space.size) break;
    }
    wait_readable();
  }

  void deliver() {
    while (!ended) {
      const auto frame = reader.next();
      if (!frame) break;
      delivering = true;
      if (handlers.frame)
        handlers.frame(*frame);  // may end or destroy the stream: this object lives on in the loop's callback
      delivering = false;
    }
    if (ended) handlers.frame = nullptr;
    if (reader.failed()) end("the peer does not speak our protocol");
  }

  void flush_soon() {
    if (ended) return;
    if (outgoing.size() - sent >= write_early && !blocked) flush_now();
    if (flushing) return;
    flushing = true;
    boost::asio::post(context, [self = shared_from_this()] {
      const Turn turn;
      self->flush();
    });
  }

  // The peer begins with the first of many messages while the others are made. Our caller is in the middle of
  // something: an error is found, and told, by the flush that follows.
  void flush_now() {
    const ssize_t n = ::write(writer().native_handle(), outgoing.data() + sent, outgoing.size() - sent);
    blocked = n < 0;
    if (n > 0) sent += static_cast<std::size_t>(n);
    if (sent < outgoing.size()) return;
    outgoing.clear();
    sent = 0;
  }

  void flush() {
    blocked = false;
    while (!ended && sent < outgoing.size()) {
      const ssize_t n = ::write(writer().native_handle(), outgoing.data() + sent, outgoing.size() - sent);
      if (n >= 0) {
        sent += static_cast<std::size_t>(n);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (sent > keep_capacity) {
          outgoing.erase(0, sent);
          sent = 0;
        }
        blocked = true;
        writer().async_wait(descriptor_base::wait_write,
                            [self = shared_from_this()](const boost::system::error_code& error) {
                              const Turn turn;
                              if (!error) self->flush();
                            });
        return;
      } else if (errno != EINTR) {
        flushing = false;
        return last_reads(errno);
      }
    }
    if (outgoing.capacity() > keep_capacity) {
      outgoing = {};
    } else {
      outgoing.clear();
    }
    sent = 0;
    flushing = false;
  }

  // The peer takes nothing more, but what it said before it went may still be here: its last words.
  void last_reads(int error) {
    const auto self = shared_from_this();
    for (int i = 0; i < most_last_reads && !ended; ++i) {
      const auto space = reader.space();
      const ssize_t n = ::read(in.native_handle(), space.data, space.size);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      reader.filled(static_cast<std::size_t>(n));
      deliver();
    }
    end(why(error));
  }

  void end(std::string reason) {
    if (ended) return;
    ended = true;
    outgoing = {};
    sent = 0;
    boost::system::error_code ignored;
    in.close(ignored);
    out.close(ignored);
    if (const auto closed = std::exchange(handlers.closed, nullptr)) closed(std::move(reason));
    if (!delivering) handlers.frame = nullptr;  // a callback must not be destroyed while it runs
  }

  boost::asio::io_context& context;
  stream_descriptor in, out;
  bool two = false;
  Handlers handlers;
  wire::FrameReader reader;
  std::string outgoing;
  std::size_t sent = 0;
  bool reading = false, flushing = false, blocked = false, ended = false, delivering = false;
};

FrameStream::FrameStream(Loop& loop, Fd in, Fd out, Handlers handlers)
    : state_(std::make_shared<State>(loop, std::move(in), std::move(out), std::move(handlers))) {
  state_->wait_readable();
}

FrameStream::~FrameStream() {
  state_->handlers.closed = nullptr;
  state_->end({});
}

std::string& FrameStream::queue() { return state_->outgoing; }
void FrameStream::flush_soon() { state_->flush_soon(); }
std::size_t FrameStream::queued() const { return state_->outgoing.size() - state_->sent; }
bool FrameStream::closed() const { return state_->ended; }
void FrameStream::flush_and_close(Duration within) {
  const auto deadline = real_now() + within;  // the loop does not beat meanwhile
  auto& state = *state_;
  while (!state.ended && state.sent < state.outgoing.size()) {
    const ssize_t n = ::write(state.writer().native_handle(), state.outgoing.data() + state.sent,
                              state.outgoing.size() - state.sent);
    if (n >= 0) {
      state.sent += static_cast<std::size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) break;
    const auto left = std::chrono::ceil<milliseconds>(deadline - real_now());
    pollfd waiting{state.writer().native_handle(), POLLOUT, 0};
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) == 0) break;
  }
  state.handlers.closed = nullptr;
  state.end({});
}

}  // namespace trainrun::io
