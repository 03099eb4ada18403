#include "launcher/agent/door.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <optional>
#include <utility>

#include "launcher/agent/peer_owner.h"
#include "launcher/base/fd.h"

namespace trainrun::agent {

using boost::asio::posix::stream_descriptor;

namespace {

constexpr Duration full_pause = milliseconds(200);
constexpr std::size_t most_connections = 4096;
constexpr std::size_t most_unread = 16u << 20;  // a worker that reads nothing for so long is cut off

struct Bound {
  Fd socket;
  std::uint16_t port = 0;
  int error = 0;
};

void reuse_address(int socket) {
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

Bound bind_port(in_addr_t address, std::uint16_t port, bool reuse) {
  Bound bound;
  bound.socket = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (reuse) reuse_address(bound.socket.get());
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = address;
  name.sin_port = htons(port);
  if (::bind(bound.socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    bound.error = errno;
    return bound;
  }
  socklen_t size = sizeof name;
  ::getsockname(bound.socket.get(), reinterpret_cast<sockaddr*>(&name), &size);
  bound.port = ntohs(name.sin_port);
  return bound;
}

// Searches first..last from the port after `last_time` on, and comes to that one at the end.
Bound bind_in_range(in_addr_t address, std::uint16_t first, std::uint16_t last, bool reuse,
                    std::uint16_t last_time = 0) {
  Bound bound;
  bound.error = EINVAL;  // an empty range
  if (first > last) return bound;
  const std::uint32_t size = last - first + 1U;
  const std::uint32_t begin = last_time >= first && last_time <= last ? last_time - first + 1U : 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    bound = bind_port(address, static_cast<std::uint16_t>(first + (begin + i) % size), reuse);
    if (bound.error == 0) break;
  }
  return bound;
}

}  // namespace

struct Door::Listener {
  Listener(boost::asio::io_context& given, Handlers to)
      : context(given), socket(given), handlers(std::move(to)) {}
  boost::asio::io_context& context;
  stream_descriptor socket;
  Handlers handlers;
  std::uint16_t port = 0;
  std::uint32_t last_stream = 0;
};

struct Door::Connection : std::enable_shared_from_this<Connection> {
  Connection(Listener& from, int fd, StreamId number) : listener(from), socket(from.context), stream(number) {
    socket.assign(fd);
  }

  void wait() {
    socket.async_wait(stream_descriptor::wait_read,
                      [weak = weak_from_this()](const boost::system::error_code& error) {
                        const auto self = weak.lock();
                        if (self && !error) self->readable();
                      });
  }
  void readable() {
    char buffer[16384];
    const ssize_t n = ::read(socket.native_handle(), buffer, sizeof buffer);
    if (n > 0) {
      listener.handlers.data(stream, {buffer, static_cast<std::size_t>(n)}, false);
      return wait();
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return wait();
    told_end = true;
    listener.handlers.data(stream, {}, true);
    if (done()) gone();
  }
  void give(std::string_view bytes) {
    pending += bytes;
    if (!writing) write();
  }
  void write() {
    writing = false;
    while (!pending.empty() && socket.is_open()) {
      const ssize_t n = ::send(socket.native_handle(), pending.data(), pending.size(), MSG_NOSIGNAL);
      if (n > 0) {
        pending.erase(0, static_cast<std::size_t>(n));
      } else if (n < 0 && errno == EAGAIN && pending.size() < most_unread) {
        writing = true;
        socket.async_wait(stream_descriptor::wait_write,
                          [weak = weak_from_this()](const boost::system::error_code& error) {
                            const auto self = weak.lock();
                            if (self && !error) self->write();
                          });
        return;
      } else if (n >= 0 || errno != EINTR) {
        // Broken, or nobody reads: a stream with a hole would be worse than its end.
        if (!std::exchange(told_end, true)) listener.handlers.data(stream, {}, true);
        return gone();
      }
    }
    if (ending && socket.is_open()) ::shutdown(socket.native_handle(), SHUT_WR);
    if (done()) gone();
  }
  [[nodiscard]] bool done() const { return told_end && ending && pending.empty(); }

  Listener& listener;
  stream_descriptor socket;
  StreamId stream;
  std::string pending;
  bool writing = false, ending = false, told_end = false;
  std::function<void()> gone;  // forgets this connection, which may destroy it
};

Door::Door(io::Loop& loop, Handlers handlers)
    : listener_(std::make_unique<Listener>(loop.context(), std::move(handlers))), retry_(loop) {}
Door::~Door() = default;

wire::DoorOpened Door::open(std::uint16_t first, std::uint16_t last) {
  if (listener_->socket.is_open()) return {listener_->port, 0};
  auto bound = bind_in_range(htonl(INADDR_LOOPBACK), first, last, false);
  if (bound.error != 0) return {0, bound.error};
  if (::listen(bound.socket.get(), SOMAXCONN) != 0) return {0, errno};
  listener_->port = bound.port;
  listener_->socket.assign(bound.socket.release());
  accept();
  return {listener_->port, 0};
}

void Door::accept() {
  listener_->socket.async_wait(stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
    if (error) return;
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    Fd fd(::accept4(listener_->socket.native_handle(), reinterpret_cast<sockaddr*>(&peer), &size,
                    SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
      // The connection stays in the queue and the socket readable: wait, or we would spin.
      return retry_.arm(io::Loop::now() + full_pause, [this] { accept(); });
    }
    // Another user of this host may connect to loopback as well: the kernel tells whose socket it is.
    const auto owner = fd ? owner_of(peer, listener_->port) : std::nullopt;
    if (owner && *owner != ::getuid() && listener_->handlers.refused) listener_->handlers.refused(*owner);
    if (owner == ::getuid() && connections_.size() < most_connections) {
      const int on = 1;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const StreamId stream{++listener_->last_stream};
      const auto connection = std::make_shared<Connection>(*listener_, fd.release(), stream);
      connection->gone = [this, stream] { connections_.erase(stream); };
      connections_.emplace(stream, connection);
      listener_->handlers.opened(stream);
      connection->wait();
    }
    accept();
  });
}

void Door::give(StreamId stream, std::string_view bytes, bool end) {
  const auto it = connections_.find(stream);
  if (it == connections_.end()) return;
  const auto connection = it->second;
  connection->ending |= end;
  connection->give(bytes);
}

void Door::close() {
  boost::system::error_code ignored;
  retry_.disarm();
  listener_->socket.close(ignored);
  connections_.clear();
}

HeldPort hold_port(std::uint16_t first, std::uint16_t last, std::uint16_t last_time) {
  // Without SO_REUSEADDR at first: with it the system would also give a port that another job holds in this
  // way, or that the last world's connections still linger on. Our own last port is still bound, too.
  auto bound = bind_in_range(htonl(INADDR_ANY), first, last, false, last_time);
  if (bound.error != 0) bound = bind_in_range(htonl(INADDR_ANY), first, last, true, last_time);
  if (bound.error == 0) reuse_address(bound.socket.get());
  return {std::move(bound.socket), {bound.port, bound.error}};
}

}  // namespace trainrun::agent
