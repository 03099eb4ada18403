// Where streams of all hosts' doors meet the service that their kind of door stands for: gives each a
// connection number and carries bytes. A decision about an answer is the service's; nothing here understands
// a byte of it.
//
// A member that does not read gets no more than a window of answers; the others wait here, and from
// Service::pause_above on nothing more is read of what it asks. A member that reads slowly loses nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "launcher/core/placement.h"
#include "launcher/gloo_meshes.h"
#include "launcher/horovod_notifier.h"
#include "launcher/io/loop.h"
#include "launcher/wire/messages.h"
#include "rendezvous/adapters/horovod_http.h"
#include "rendezvous/adapters/torch_store.h"
#include "rendezvous/service.h"

namespace trainrun {

class RendezvousHub {
 public:
  struct Member {
    core::Seat seat;
    std::string host, address;
    WorkerId worker{};
  };
  // Each piece of bytes is far below what one frame of the Link holds, however long the reply.
  using Send = std::function<void(HostIndex, StreamId, std::string bytes, bool end)>;
  // So many more bytes of the member have been taken, and it may send as many.
  using Credit = std::function<void(HostIndex, StreamId, std::uint64_t bytes)>;
  // Towards a port on which a member listens; what comes from there is received() or refused().
  using Open = std::function<void(HostIndex, const wire::OpenStream&)>;
  // Connections of ranks there are to be ended.
  using Break = std::function<void(HostIndex, const wire::BreakConnections&)>;
  // What members do that the brain may care for; rendezvous/event.h says when. Each may be empty. They are
  // called in a later turn of the loop, never inside a call of the hub, and not after the hub is gone.
  struct Events {
    std::function<void(Generation, Rank)> joined;
    std::function<void(Generation, bool elastic)> formed;
    std::function<void(Generation, const rendezvous::Verdict&)> broken;
    std::function<void(Generation, WorkerId)> waits;
    std::function<void(Generation, WorkerId, const rendezvous::Pulse&)> pulse;
    // Some ranks have come to torch's store, and `arrival_limit` later others have not.
    std::function<void(Generation, const rendezvous::TorchStore::Arrivals&)> torch_waits;
    // Two ranks have come there as the same one; once a generation.
    std::function<void(Generation, const rendezvous::TorchClash&)> torch_clash;
    // All have come, and `arrival_limit` later some wait for a member that the world does not have.
    std::function<void(Generation, std::uint32_t member)> torch_awaits_beyond;
    // A client of torch's store was turned away.
    std::function<void(HostIndex, const std::string& why)> torch_refused;
    // The same of Horovod's ranks and their rendezvous.
    std::function<void(Generation, const std::set<Rank>& came)> horovod_waits;
    std::function<void(HostIndex, const std::string& why)> horovod_refused;
    // Its program is elastic by Horovod's own means; once a generation.
    std::function<void(Generation)> horovod_elastic;
    // All its ranks have met, and can take another place without a new process.
    std::function<void(Generation)> horovod_formed;
    // One of Horovod's ranks cannot go on, and cannot be told so: it is to be ended.
    std::function<void(WorkerId)> horovod_hopeless;
    // It has ended without hvd.init, and others wait for it there.
    std::function<void(Generation, Rank)> horovod_deserted;
    // By no address could it be told that hosts change, which is tried further.
    std::function<void(WorkerId, const std::string& why)> horovod_unreachable;
  };

  static constexpr Duration arrival_limit = seconds(10);  // and Horovod's

  // `key` has 32 bytes.
  RendezvousHub(io::Loop& loop, const std::string& key, Send send, Events events = {}, Credit credit = {},
                Open open = {}, Break break_connections = {});

  void begin(Generation generation, const std::vector<Member>& members);
  void end(Generation generation, const std::string& reason);
  // The generation has failed, and its members live on. A rank of Horovod that waits for one which lives too,
  // and has left the world already, would hear so by Gloo's time-out alone: what is between them is ended,
  // once all `survivors` are through with hvd.init, which would not live through it. Called again when some
  // of them have ended meanwhile.
  void break_meshes(Generation generation, std::set<Rank> survivors);
  [[nodiscard]] bool waits_to_break() const { return survivors_.has_value(); }
  void member_lost(Generation generation, Rank rank, const std::string& host, const std::string& how);
  // The others go on without it.
  void member_failed(Generation generation, Rank rank, const std::string& host, const std::string& how);
  // A rank has ended well: Horovod's ranks that wait for it would wait for ever.
  void member_left(Generation generation, Rank rank);
  // Others wait for it in hvd.init.
  [[nodiscard]] bool awaited_by_horovod(Generation generation, Rank rank) const;
  // Its process has: others that counted on it are told that it has left, not that it was lost.
  // Of comm's members, by their rendezvous; see there.
  [[nodiscard]] std::vector<std::uint32_t> silent(Instant now) const { return service_.table().silent(now); }
  void member_ended_well(Generation generation, Rank rank) { service_.member_ended_well(generation, rank); }

  // Tells the members of the generation what will change; `stopping` are the workers that are to go.
  void announce(Generation generation, rendezvous::Change change, const std::vector<WorkerId>& stopping,
                const std::string& text);
  // The worker gets no place in a later generation: if it waits for one it hears so, also when it asks later.
  void dismiss(WorkerId worker);

  // `rank`: whose process it is; for torch's store, if it is known.
  void opened(HostIndex host, StreamId stream, wire::DoorKind kind = wire::DoorKind::rendezvous,
              std::optional<Rank> rank = {});
  void received(HostIndex host, StreamId stream, const std::string& bytes, bool end);
  void refused(HostIndex host, const wire::StreamRefused& answer) { notifier_.refused(host, answer); }
  void taken(HostIndex host, StreamId stream, std::uint64_t bytes);  // by the member, of what was sent to it
  void host_gone(HostIndex host);

 private:
  using Place = std::pair<HostIndex, StreamId>;
  struct Stream {
    Place place;
    wire::DoorKind kind = wire::DoorKind::rendezvous;
    std::string queue;  // for the member, above what is under way, from `sent` on
    std::size_t sent = 0;
    std::uint64_t under_way = 0;  // sent and not taken
    std::uint64_t owed = 0;       // taken of the member's, and not told
    bool closing = false;         // by the service, which knows it no more; its end follows the queue
  };
  using Streams = std::unordered_map<std::uint32_t, Stream>;
  void reply(std::uint32_t connection, const std::string& bytes);
  void close(std::uint32_t connection);
  void tell_service(std::uint32_t connection, const Stream& stream, const std::string& bytes);
  void tell_closed(std::uint32_t connection, wire::DoorKind kind);
  void watch_arrivals();
  void watch_horovod();
  void break_if_through();
  template <class... What>
  void post(std::function<void(What...)> Events::*hearer, std::type_identity_t<What>... what);
  void turn_away(std::uint32_t connection, const std::string& why,
                 std::function<void(HostIndex, const std::string&)> Events::*hearer);
  [[nodiscard]] std::size_t unsent(std::uint32_t connection) const;
  void flush(std::uint32_t connection);
  void finish(Streams::iterator it, std::string bytes);
  void pay(std::uint32_t connection);
  void arm();

  Send send_;
  Credit credit_;
  Break break_;
  std::shared_ptr<const Events> events_;  // posted calls hold it weakly
  rendezvous::Service service_;
  rendezvous::TorchStore torch_store_;
  rendezvous::HorovodHttp horovod_;
  HorovodNotifier notifier_;
  io::Loop& loop_;
  Generation generation_{};
  std::size_t size_ = 0;         // of that generation
  bool torch_all_came_ = false;  // to its store, in this generation
  bool horovod_told_ = false;    // or will be, of that generation
  bool horovod_elastic_ = false;
  GlooMeshes meshes_;                        // of that one
  std::optional<std::set<Rank>> survivors_;  // between whom it is to be ended
  std::map<Place, std::uint32_t> connections_;
  Streams streams_;
  std::uint32_t last_connection_ = 0;
  std::optional<Instant> armed_for_;  // what timer_ waits for
  io::Timer timer_, torch_timer_, horovod_timer_;
};

}  // namespace trainrun
