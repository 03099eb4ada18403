#include "launcher/rendezvous_hub.h"

#include <algorithm>
#include <iterator>
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
static_assert(rendezvous::TorchStore::pause_above == rendezvous::Service::pause_above);

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
    if (to.pulse) to.pulse(it.generation, it.worker, it.said);
  }
};

}  // namespace

RendezvousHub::RendezvousHub(io::Loop& loop, const std::string& key, Send send, Events events, Credit credit,
                             Open open, Break break_connections)
    : send_(std::move(send)),
      credit_(std::move(credit)),
      break_(std::move(break_connections)),
      events_(std::make_shared<const Events>(std::move(events))),
      service_(as_key(key),
               {[this](std::uint32_t connection, const std::string& bytes) { reply(connection, bytes); },
                [this](std::uint32_t connection) { close(connection); },
                {},
                [this, &loop](const rendezvous::Event& event) {
                  loop.post([held = std::weak_ptr(events_), event] {
                    if (const auto hearers = held.lock()) std::visit(Dispatch{*hearers}, event);
                  });
                },
                [this](std::uint32_t connection) { return unsent(connection); }}),
      torch_store_(
          {[this](std::uint32_t connection, const std::string& bytes) { reply(connection, bytes); },
           [this](std::uint32_t connection, const std::string& why) {
             turn_away(connection, why, &Events::torch_refused);
           },
           [this](std::uint32_t connection) { return unsent(connection); },
           [this](const rendezvous::TorchClash& clash) { post(&Events::torch_clash, generation_, clash); }}),
      horovod_({[this](std::uint32_t connection, const std::string& bytes) {
                  // The one reply; it goes with the end.
                  if (const auto it = streams_.find(connection); it != streams_.end())
                    it->second.queue = bytes;
                },
                [this](std::uint32_t connection, const std::string& why) {
                  if (why.empty()) return close(connection);
                  turn_away(connection, why, &Events::horovod_refused);
                },
                [this](Rank rank) { post(&Events::joined, generation_, rank); },
                [this] { post(&Events::horovod_formed, generation_); },
                [this](WorkerId worker) {
                  notifier_.interrupted();
                  post(&Events::waits, generation_, worker);
                },
                [this](WorkerId worker) { post(&Events::horovod_hopeless, worker); },
                [this](WorkerId worker, const std::string& value) { notifier_.listens(worker, value); },
                [this](Rank rank) { post(&Events::horovod_deserted, generation_, rank); },
                [this](std::uint32_t connection, const std::string& value) {
                  if (const auto it = streams_.find(connection); it != streams_.end())
                    meshes_.keep(it->second.place.first, value);
                }}),
      notifier_(loop, {std::move(open), send_,
                       [this](WorkerId worker, const std::string& why) {
                         post(&Events::horovod_unreachable, worker, why);
                       }}),
      loop_(loop),
      timer_(loop),
      torch_timer_(loop),
      horovod_timer_(loop) {}

void RendezvousHub::reply(std::uint32_t connection, const std::string& bytes) {
  const auto it = streams_.find(connection);
  if (it == streams_.end()) return;
  it->second.queue += bytes;
  flush(connection);
}

void RendezvousHub::close(std::uint32_t connection) {
  const auto it = streams_.find(connection);
  if (it == streams_.end()) return;
  it->second.closing = true;
  flush(connection);
}

template <class... What>
void RendezvousHub::post(std::function<void(What...)> Events::*hearer, std::type_identity_t<What>... what) {
  loop_.post([held = std::weak_ptr(events_), hearer, what...] {
    const auto hearers = held.lock();
    if (hearers && (*hearers).*hearer) ((*hearers).*hearer)(what...);
  });
}

void RendezvousHub::turn_away(std::uint32_t connection, const std::string& why,
                              std::function<void(HostIndex, const std::string&)> Events::*hearer) {
  const auto it = streams_.find(connection);
  if (it == streams_.end()) return;
  post(hearer, it->second.place.first, why);
  close(connection);
}

void RendezvousHub::tell_service(std::uint32_t connection, const Stream& stream, const std::string& bytes) {
  if (bytes.empty() || stream.closing) return;
  switch (stream.kind) {
    case wire::DoorKind::torch_store:
      return torch_store_.received(connection, bytes);
    case wire::DoorKind::horovod:
      horovod_.received(connection, bytes);
      break_if_through();
      return watch_horovod();
    case wire::DoorKind::rendezvous:
      return service_.received(connection, bytes, io::Loop::now());
  }
}

void RendezvousHub::tell_closed(std::uint32_t connection, wire::DoorKind kind) {
  switch (kind) {
    case wire::DoorKind::torch_store:
      return torch_store_.closed(connection);
    case wire::DoorKind::horovod:
      return horovod_.closed(connection);
    case wire::DoorKind::rendezvous:
      return service_.closed(connection, io::Loop::now());
  }
}

// Those who have come wait for the others, in init_process_group or soon; once all have, for nobody long.
void RendezvousHub::watch_arrivals() {
  const auto came = [this] { return torch_store_.arrivals().ranks.size() + torch_store_.arrivals().unknown; };
  const bool first = came() == 1;
  if (!first && (came() < size_ || std::exchange(torch_all_came_, true))) return;
  torch_all_came_ = torch_all_came_ || came() >= size_;
  torch_timer_.arm(io::Loop::now() + arrival_limit, [this, came] {
    if (came() < size_) {
      if (events_->torch_waits) events_->torch_waits(generation_, torch_store_.arrivals());
    } else if (const auto member = torch_store_.awaits_beyond(static_cast<std::uint32_t>(size_));
               member && events_->torch_awaits_beyond) {
      events_->torch_awaits_beyond(generation_, *member);
    }
  });
}

// The same in hvd.init.
void RendezvousHub::watch_horovod() {
  if (horovod_.elastic() && !std::exchange(horovod_elastic_, true)) {
    post(&Events::horovod_elastic, generation_);
  }
  if (horovod_told_ || horovod_.arrivals().empty()) return;
  horovod_told_ = true;
  horovod_timer_.arm(io::Loop::now() + arrival_limit, [this] {
    const auto came = horovod_.arrivals();
    if (came.size() < size_ && events_->horovod_waits) events_->horovod_waits(generation_, came);
  });
}

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
    if (stream.closing && stream.queue.empty()) return finish(it, std::move(bytes));
    send_(stream.place.first, stream.place.second, std::move(bytes), false);
  }
  if (stream.closing && stream.queue.empty()) finish(it, {});
}

void RendezvousHub::finish(Streams::iterator it, std::string bytes) {
  const auto place = it->second.place;
  streams_.erase(it);
  connections_.erase(place);
  send_(place.first, place.second, std::move(bytes), true);
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
  generation_ = generation;
  size_ = members.size();
  torch_timer_.disarm();
  torch_store_.begin(generation);
  horovod_timer_.disarm();
  torch_all_came_ = horovod_told_ = horovod_elastic_ = false;
  meshes_ = {};
  survivors_.reset();
  std::vector<rendezvous::HorovodHttp::Seat> horovod_world;
  std::vector<std::pair<WorkerId, HostIndex>> homes;
  for (const auto& [seat, host, address, worker] : members) {
    horovod_world.push_back(
        {seat.rank, host, seat.local_rank, seat.local_size, seat.cross_rank, seat.cross_size, worker});
    homes.emplace_back(worker, seat.host);
  }
  notifier_.begin(homes);
  horovod_.begin(horovod_world);
  watch_horovod();  // survivors of a planned change have asked already
  service_.begin_generation(generation, std::move(world), io::Loop::now());
  arm();
}

void RendezvousHub::end(Generation generation, const std::string& reason) {
  service_.end_generation(generation, reason, io::Loop::now());
  arm();
}

void RendezvousHub::break_meshes(Generation generation, std::set<Rank> survivors) {
  if (generation != generation_ || !break_ || !horovod_.elastic()) return;
  survivors_ = std::move(survivors);
  break_if_through();
}

void RendezvousHub::break_if_through() {
  if (!survivors_ || !horovod_.through(*survivors_)) return;
  survivors_.reset();
  for (auto& [host, order] : meshes_.take()) break_(host, std::move(order));
}

void RendezvousHub::member_lost(Generation generation, Rank rank, const std::string& host,
                                const std::string& how) {
  service_.member_lost(generation, rank, host, how, io::Loop::now());
  arm();
}

void RendezvousHub::member_failed(Generation generation, Rank rank, const std::string& host,
                                  const std::string& how) {
  service_.member_failed(generation, rank, host, how);
  arm();
}

void RendezvousHub::member_left(Generation generation, Rank rank) {
  if (generation == generation_) horovod_.left(rank);
}

bool RendezvousHub::awaited_by_horovod(Generation generation, Rank rank) const {
  return generation == generation_ && horovod_.awaits(rank);
}

void RendezvousHub::announce(Generation generation, rendezvous::Change change,
                             const std::vector<WorkerId>& stopping, const std::string& text) {
  std::unordered_set<std::uint32_t> workers;
  for (const auto worker : stopping) workers.insert(worker.value);
  service_.announce(generation, change, std::move(workers), text);
  if (generation == generation_) notifier_.announce(change != rendezvous::Change::added);
  arm();
}

void RendezvousHub::dismiss(WorkerId worker) {
  service_.dismiss(worker);
  horovod_.dismiss(worker);
  arm();
}

void RendezvousHub::opened(HostIndex host, StreamId stream, wire::DoorKind kind, std::optional<Rank> rank) {
  const auto connection = ++last_connection_;
  connections_[{host, stream}] = connection;
  streams_[connection].place = {host, stream};
  streams_[connection].kind = kind;
  switch (kind) {
    case wire::DoorKind::torch_store: {
      const auto before = torch_store_.arrivals().ranks.size() + torch_store_.arrivals().unknown;
      torch_store_.opened(connection, rank);
      if (before < torch_store_.arrivals().ranks.size() + torch_store_.arrivals().unknown) watch_arrivals();
      return;
    }
    case wire::DoorKind::horovod:
      return horovod_.opened(connection);
    case wire::DoorKind::rendezvous:
      service_.opened(connection, io::Loop::now(), rendezvous::Service::Peer::neighbour);
      return arm();
  }
}

void RendezvousHub::received(HostIndex host, StreamId stream, const std::string& bytes, bool end) {
  if (wire::is_of_launcher(stream)) return notifier_.received(host, stream, bytes, end);
  const auto it = connections_.find({host, stream});
  if (it == connections_.end()) {
    if (!end) send_(host, stream, {}, true);
    return;
  }
  const auto connection = it->second;
  auto& here = streams_.at(connection);
  here.owed += bytes.size();
  const auto kind = here.kind;
  tell_service(connection, here, bytes);
  if (end && streams_.contains(connection)) {
    tell_closed(connection, kind);
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
  auto& here = streams_.at(connection);
  const auto kind = here.kind;
  here.under_way -= std::min(here.under_way, bytes);
  flush(connection);
  if (paused && unsent(connection) < rendezvous::Service::pause_above) {
    // Horovod's connections get one reply each.
    if (kind == wire::DoorKind::torch_store) torch_store_.drained(connection);
    if (kind == wire::DoorKind::rendezvous) service_.drained(connection, io::Loop::now());
    pay(connection);
    arm();
  }
}

void RendezvousHub::host_gone(HostIndex host) {
  // The service may close other connections in answer, so it is told only when the maps are in order.
  std::vector<std::pair<std::uint32_t, wire::DoorKind>> gone;
  for (auto it = connections_.lower_bound({host, StreamId{0}});
       it != connections_.end() && it->first.first == host; it = connections_.erase(it)) {
    gone.emplace_back(it->second, streams_.at(it->second).kind);
    streams_.erase(it->second);
  }
  for (const auto& [connection, kind] : gone) tell_closed(connection, kind);
  notifier_.host_gone(host);
  meshes_.host_gone(host);
  arm();
}

// Called after each message, and mostly nothing has changed: to set the kernel's timer again is a system
// call.
void RendezvousHub::arm() {
  const auto next = service_.next_deadline();
  if (next == armed_for_) return;
  armed_for_ = next;
  if (!next) return timer_.disarm();
  timer_.arm(*next, [this] {
    armed_for_.reset();
    service_.advance(io::Loop::now());
    arm();
  });
}

}  // namespace trainrun
