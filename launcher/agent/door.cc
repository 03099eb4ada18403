#include "launcher/agent/door.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <utility>

#include "launcher/agent/peer_owner.h"
#include "launcher/agent/ports.h"
#include "launcher/agent/stream_relay.h"
#include "launcher/base/fd.h"

namespace trainrun::agent {

using boost::asio::posix::stream_descriptor;

namespace {

constexpr Duration full_pause = milliseconds(200);
constexpr std::size_t most_connections = 4096;
constexpr int most_at_once = 16;

Fd any_descriptor() { return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }
bool descriptors_are_short(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

}  // namespace

struct Door::Listener {
  Listener(io::Loop& given, StreamId& last, Handlers to)
      : loop(given), socket(given.context()), handlers(std::move(to)), last_stream(last) {}
  io::Loop& loop;
  stream_descriptor socket;
  Handlers handlers;
  StreamHandlers relaying{handlers.data, handlers.taken};
  std::uint16_t port = 0;
  StreamId& last_stream;
  Fd netlink, spare;
};

Door::Door(io::Loop& loop, StreamId& last_stream, Handlers handlers)
    : listener_(std::make_unique<Listener>(loop, last_stream, std::move(handlers))), retry_(loop) {}
Door::~Door() = default;

wire::DoorOpened Door::open(std::uint16_t first, std::uint16_t last) {
  if (listener_->socket.is_open()) return {listener_->port, 0};
  auto bound = bind_in_range(htonl(INADDR_LOOPBACK), first, last);
  if (bound.error != 0) return {0, bound.error};
  if (::listen(bound.socket.get(), SOMAXCONN) != 0) return {0, errno};
  listener_->port = bound.port;
  listener_->socket.assign(bound.socket.release());
  listener_->netlink = open_netlink();
  listener_->spare = any_descriptor();
  accept();
  return {listener_->port, 0};
}

void Door::accept() {
  listener_->socket.async_wait(stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
    if (error) return;
    for (int i = 0; i < most_at_once; ++i) {
      if (accept_one()) continue;
      if (!descriptors_are_short(errno)) break;
      // The connection stays in the queue and the socket readable: wait, or we would spin.
      return retry_.arm(io::Loop::now() + full_pause, [this] { accept(); });
    }
    accept();
  });
}

bool Door::accept_one() {
  // To ask whose a connection is may take a descriptor as well: one that cannot be asked about is not
  // accepted.
  if (!listener_->spare && !(listener_->spare = any_descriptor())) return false;
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  Fd fd(::accept4(listener_->socket.native_handle(), reinterpret_cast<sockaddr*>(&peer), &size,
                  SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return false;
  // Another user of this host may connect to loopback as well: the kernel tells whose socket it is.
  const auto owner = owner_of(listener_->netlink, listener_->spare, peer, listener_->port);
  if (owner && owner->user != ::getuid() && listener_->handlers.refused)
    listener_->handlers.refused(owner->user);
  if (!owner || owner->user != ::getuid() || connections_.size() == most_connections) return true;
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const StreamId stream{++listener_->last_stream.value};
  const auto connection =
      std::make_shared<StreamRelay>(listener_->loop, fd.release(), stream, listener_->relaying,
                                    [this, stream] { connections_.erase(stream); });
  connections_.emplace(stream, connection);
  listener_->handlers.opened(stream, *owner);
  connection->begin();
  return true;
}

void Door::give(StreamId stream, std::string_view bytes, bool end) {
  const auto it = connections_.find(stream);
  if (it == connections_.end()) return;
  const auto connection = it->second;
  connection->give(bytes, end);
}

void Door::taken(StreamId stream, std::uint64_t bytes) {
  const auto it = connections_.find(stream);
  if (it != connections_.end()) it->second->taken(bytes);
}

}  // namespace trainrun::agent
