#include "launcher/rendezvous_hub.h"

#include <algorithm>
#include <unordered_set>
#include <variant>

#include "launcher/base/check.h"

namespace trainrun {
namespace {

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
    if (to.pulse) to.pulse(it.worker, it.op, it.sequence, it.in_operation);
  }
};

}  // namespace

RendezvousHub::RendezvousHub(io::Loop& loop, const std::string& key, Send send, Events events)
    : send_(std::move(send)),
      events_(std::make_shared<const Events>(std::move(events))),
      service_(as_key(key), {[this](std::uint32_t connection, std::string bytes) {
                               const auto it = places_.find(connection);
                               if (it != places_.end())
                                 send_(it->second.first, it->second.second, std::move(bytes), false);
                             },
                             [this](std::uint32_t connection) {
                               const auto it = places_.find(connection);
                               if (it == places_.end()) return;
                               const auto place = it->second;
                               places_.erase(it);
                               connections_.erase(place);
                               send_(place.first, place.second, {}, true);
                             },
                             {},
                             [this, &loop](const rendezvous::Event& event) {
                               loop.post([held = std::weak_ptr(events_), event] {
                                 if (const auto hearers = held.lock()) std::visit(Dispatch{*hearers}, event);
                               });
                             }}),
      timer_(loop) {}

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
  places_[connection] = {host, stream};
  service_.opened(connection, io::Loop::now());
  arm();
}

void RendezvousHub::received(HostIndex host, StreamId stream, const std::string& bytes, bool end) {
  const auto it = connections_.find({host, stream});
  if (it == connections_.end()) {
    if (!end) send_(host, stream, {}, true);
    return;
  }
  const auto connection = it->second;
  if (!bytes.empty()) service_.received(connection, bytes, io::Loop::now());
  if (end && places_.contains(connection)) {
    service_.closed(connection, io::Loop::now());
    places_.erase(connection);
    connections_.erase({host, stream});
    send_(host, stream, {}, true);
  }
  arm();
}

void RendezvousHub::host_gone(HostIndex host) {
  // The service may close other connections in answer, so it is told only when the maps are in order.
  std::vector<std::uint32_t> gone;
  std::erase_if(connections_, [&](const auto& it) {
    if (it.first.first != host) return false;
    places_.erase(it.second);
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
