#include "launcher/rendezvous_hub.h"

#include <algorithm>
#include <unordered_set>
#include <variant>

#include "launcher/base/check.h"
#include "launcher/wire/frame.h"
#include "launcher/wire/messages.h"

namespace trainrun {
namespace {

// A reply may be longer than a frame of the Link, and a long frame keeps others waiting behind it.
constexpr std::size_t piece = 256u << 10;
static_assert(piece < wire::frame_limit / 2);

rendezvous::Key as_key(const std::string& bytes) {
  rendezvous::Key key{};
  TRAINRUN_CHECK(bytes.size() == key.bytes.size());
  std::copy(bytes.begin(), bytes.end(), key.bytes.begin());
  return key;
}

struct Dispatch {
  const RendezvousHub::Events& to;

  void operator()(const rendezvous::MemberJoined& it) const {
    if (to.joined) to.joined(it.generation, it.rank);
  }
  void operator()(const rendezvous::Formed& it) const {
    if (to.formed) to.formed(it.generation, it.elastic);
  }
  void operator()(const rendezvous::Broken& it) const {
    if (to.broken) to.broken(it.generation, it.verdict);
  }
  void operator()(const rendezvous::MemberWaits& it) const {
    if (to.waits) to.waits(it.generation, it.worker);
  }
  void operator()(const rendezvous::MemberPulse& it) const {
    if (to.pulse) to.pulse(it.generation, it.worker, it.op, it.sequence, it.in_operation);
  }
};

}  // namespace

RendezvousHub::RendezvousHub(io::Loop& loop, const std::string& key, Send send, Events events, Credit credit)
    : send_(std::move(send)),
      credit_(std::move(credit)),
      events_(std::make_shared<const Events>(std::move(events))),
      service_(as_key(key), {[this](std::uint32_t connection, std::string bytes) {
                               const auto it = streams_.find(connection);
                               if (it == streams_.end()) return;
                               it->second.queue += bytes;
                               flush(connection);
                             },
                             [this](std::uint32_t connection) {
                               const auto it = streams_.find(connection);
                               if (it == streams_.end()) return;
                               it->second.closing = true;
                               flush(connection);
                             },
                             {},
                             [this, &loop](const rendezvous::Event& event) {
                               loop.post([held = std::weak_ptr(events_), event] {
                                 if (const auto hearers = held.lock()) std::visit(Dispatch{*hearers}, event);
                               });
                             },
                             [this](std::uint32_t connection) { return unsent(connection); }}),
      timer_(loop) {}

std::size_t RendezvousHub::unsent(std::uint32_t connection) const {
  const auto it = streams_.find(connection);
  return it == streams_.end() ? 0 : it->second.queue.size() - it->second.sent + it->second.under_way;
}

// As much as the window has room for.
void RendezvousHub::flush(std::uint32_t connection) {
  const auto it = streams_.find(connection);
  if (it == streams_.end()) return;
  auto& stream = it->second;
  while (!stream.queue.empty() && stream.under_way < wire::stream_window) {
    const auto room = std::min<std::size_t>(piece, wire::stream_window - stream.under_way);
    auto bytes = stream.queue.substr(stream.sent, room);
    stream.sent += bytes.size();
    stream.under_way += bytes.size();
    if (stream.sent > stream.queue.size() / 2) {  // seldom: what is left is moved
      stream.queue.erase(0, stream.sent);
      stream.sent = 0;
    }
    send_(stream.place.first, stream.place.second, std::move(bytes), false);
  }
  if (!stream.closing || !stream.queue.empty()) return;
  const auto place = stream.place;
  streams_.erase(it);
  connections_.erase(place);
  send_(place.first, place.second, {}, true);
}

// What was taken is told, unless the member has to read first.
void RendezvousHub::pay(std::uint32_t connection) {
  const auto it = streams_.find(connection);
  if (it == streams_.end() || it->second.owed < wire::stream_window / 4) return;
  if (unsent(connection) >= rendezvous::Service::pause_above) return;
  const auto bytes = std::exchange(it->second.owed, 0);
  if (credit_) credit_(it->second.place.first, it->second.place.second, bytes);
}

void RendezvousHub::begin(Generation generation, const std::vector<Member>& members) {
  rendezvous::World world;
  world.generation = generation.value;
  world.size = static_cast<std::uint32_t>(members.size());
  for (const auto& member : members) {
    world.members.push_back({member.seat.rank.value, member.host, member.address, member.seat.local_rank,
                             member.seat.local_size, member.worker.value});
  }
  service_.begin_generation(generation, std::move(world), io::Loop::now());
  arm();
}

void RendezvousHub::end(Generation generation, const std::string& reason) {
  service_.end_generation(generation, reason, io::Loop::now());
  arm();
}

void RendezvousHub::member_lost(Generation generation, Rank rank, const std::string& host,
                                const std::string& how) {
  service_.member_lost(generation, rank, host, how, io::Loop::now());
  arm();
}

void RendezvousHub::announce(Generation generation, rendezvous::Change change,
                             const std::vector<WorkerId>& stopping, const std::string& text) {
  std::unordered_set<std::uint32_t> workers;
  for (const auto worker : stopping) workers.insert(worker.value);
  service_.announce(generation, change, std::move(workers), text);
  arm();
}

void RendezvousHub::dismiss(WorkerId worker) {
  service_.dismiss(worker);
  arm();
}

void RendezvousHub::opened(HostIndex host, StreamId stream) {
  const auto connection = ++last_connection_;
  connections_[{host, stream}] = connection;
  streams_[connection].place = {host, stream};
  service_.opened(connection, io::Loop::now(), rendezvous::Service::Peer::neighbour);
  arm();
}

void RendezvousHub::received(HostIndex host, StreamId stream, const std::string& bytes, bool end) {
  const auto it = connections_.find({host, stream});
  if (it == connections_.end()) {
    if (!end) send_(host, stream, {}, true);
    return;
  }
  const auto connection = it->second;
  auto& here = streams_.at(connection);
  here.owed += bytes.size();
  if (!bytes.empty() && !here.closing) service_.received(connection, bytes, io::Loop::now());
  if (end && streams_.contains(connection)) {
    service_.closed(connection, io::Loop::now());
    streams_.erase(connection);
    connections_.erase({host, stream});
    send_(host, stream, {}, true);
  }
  pay(connection);
  arm();
}

void RendezvousHub::taken(HostIndex host, StreamId stream, std::uint64_t bytes) {
  const auto it = connections_.find({host, stream});
  if (it == connections_.end()) return;
  const auto connection = it->second;
  const bool paused = unsent(connection) >= rendezvous::Service::pause_above;
  auto& under_way = streams_.at(connection).under_way;
  under_way -= std::min(under_way, bytes);
  flush(connection);
  if (paused && unsent(connection) < rendezvous::Service::pause_above) {
    service_.drained(connection, io::Loop::now());
    pay(connection);
    arm();
  }
}

void RendezvousHub::host_gone(HostIndex host) {
  // The service may close other connections in answer, so it is told only when the maps are in order.
  std::vector<std::uint32_t> gone;
  std::erase_if(connections_, [&](const auto& it) {
    if (it.first.first != host) return false;
    streams_.erase(it.second);
    gone.push_back(it.second);
    return true;
  });
  for (const auto connection : gone) service_.closed(connection, io::Loop::now());
  arm();
}

void RendezvousHub::arm() {
  const auto next = service_.next_deadline();
  if (!next) return timer_.disarm();
  timer_.arm(*next, [this] {
    service_.advance(io::Loop::now());
    arm();
  });
}

}  // namespace trainrun
