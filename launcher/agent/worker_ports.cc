#include "launcher/agent/worker_ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "launcher/agent/peer_owner.h"
#include "launcher/agent/stream_relay.h"
#include "launcher/base/fd.h"

namespace trainrun::agent {
namespace {

constexpr std::size_t most_streams = 256;

// Whoever connects to an address of its own host has it itself: the kernel is asked without a packet.
bool is_of_this_host(const sockaddr_in& where) {
  const Fd probe(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  socklen_t size = sizeof own;
  return probe && ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0 &&
         ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
         own.sin_addr.s_addr == where.sin_addr.s_addr;
}

}  // namespace

WorkerPorts::WorkerPorts(io::Loop& loop, Handlers handlers) : loop_(loop), handlers_(std::move(handlers)) {}
WorkerPorts::~WorkerPorts() = default;

void WorkerPorts::open(const wire::OpenStream& order) {
  const auto stream = order.stream;
  if (relays_.contains(stream)) return;
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(order.address);
  where.sin_port = htons(order.port);
  if (relays_.size() >= most_streams) return handlers_.refused(stream, EMFILE);
  if (!is_of_this_host(where)) return handlers_.refused(stream, EACCES);
  const auto owner = owner_of_listener(where);
  if (!owner) return handlers_.refused(stream, ECONNREFUSED);
  if (owner->user != ::getuid()) return handlers_.refused(stream, EACCES);
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return handlers_.refused(stream, errno);
  // On one host it stands at once, or in a moment: what is sent before waits, and an error ends the stream.
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0 &&
      errno != EINPROGRESS)
    return handlers_.refused(stream, errno);
  const auto relay = std::make_shared<StreamRelay>(loop_, fd.release(), stream, handlers_.relaying,
                                                   [this, stream] { relays_.erase(stream); });
  relays_.emplace(stream, relay);
  relay->wait();
}

void WorkerPorts::give(StreamId stream, std::string_view bytes, bool end) {
  const auto it = relays_.find(stream);
  if (it == relays_.end()) return;
  const auto relay = it->second;
  if (!bytes.empty()) relay->give(bytes, false);
  if (end) relays_.erase(stream);
}

void WorkerPorts::taken(StreamId stream, std::uint64_t bytes) {
  const auto it = relays_.find(stream);
  if (it != relays_.end()) it->second->taken(bytes);
}

}  // namespace trainrun::agent
