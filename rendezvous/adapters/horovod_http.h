// The rendezvous of Horovod's Gloo controller, without its sockets: a table of values by scope and key. Where
// Horovod's own server answers 404 and is asked again a hundred times a second until Gloo's 30 s are over,
// this one keeps the question: Horovod's client waits for a reply as long as it takes.
//
//   global, local_HOST, cross_L   the meshes of the world: nobody gets an address before all have
//                                 left theirs, so nobody connects to one that is not there
//   ..._process_set_hash_...      of a process set, whose size is not known: until the address is there
//   anything else, and rank_N     at once
//   rank_and_size                 see horovod_rounds.h
//
// Once a rank has ended nothing is kept any more: what is missing may never come, and Gloo's own time-out
// says so. Each generation has values of its own.
//
// Not thread-safe. The callbacks must not call back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/id.h"
#include "rendezvous/adapters/horovod_request.h"
#include "rendezvous/adapters/horovod_rounds.h"

namespace trainrun::rendezvous {

class HorovodHttp {
 public:
  struct Callbacks {
    std::function<void(std::uint32_t connection, std::string bytes)> send;
    // After the one reply that a connection gets; closed() need not be called for it any more. `why` it was
    // turned away; empty: it was served.
    std::function<void(std::uint32_t connection, std::string why)> close;
    // See HorovodRounds::Callbacks.
    std::function<void(Rank)> joined = nullptr;
    std::function<void()> formed = nullptr;
    std::function<void(WorkerId)> waits = nullptr, hopeless = nullptr;
    // Where an elastic rank can be notified, as it has written that down; see horovod_notice.h.
    std::function<void(WorkerId, const std::string& value)> listens = nullptr;
    // It has left without having come to a mesh that others wait in. Told once.
    std::function<void(Rank)> deserted = nullptr;
    // A rank's addresses for a mesh of the current generation; what they are in is gloo_address.h's.
    std::function<void(std::uint32_t connection, const std::string& value)> meets = nullptr;
  };
  using Seat = HorovodSeat;
  // Of one generation: keys and values together, and what has come of requests that have not ended.
  static constexpr std::size_t most_bytes = std::size_t{512} << 20;

  explicit HorovodHttp(Callbacks callbacks);

  void begin(const std::vector<Seat>& world);
  void opened(std::uint32_t connection);
  void received(std::uint32_t connection, std::string_view bytes);
  void closed(std::uint32_t connection);
  // It has ended.
  void left(Rank rank);
  void dismiss(WorkerId worker) { rounds_.dismiss(worker); }

  // Of the current generation: whether its program is elastic by Horovod's own means.
  [[nodiscard]] bool elastic() const { return rounds_.elastic(); }
  // These of its ranks are through with hvd.init.
  [[nodiscard]] bool through(const std::set<Rank>& ranks) const { return rounds_.through(ranks); }
  // Others have begun to meet, and it has not.
  [[nodiscard]] bool awaits(Rank rank) const;
  // And who has begun to meet the others.
  [[nodiscard]] std::set<Rank> arrivals() const;

 private:
  struct Scope {
    std::size_t size = 0;  // how many addresses it will have; 0: not known
    std::size_t present = 0;
    std::map<std::string, std::string> values{};
    std::map<std::uint32_t, std::string> waiting{};  // connections, and for which address

    [[nodiscard]] bool complete() const { return size != 0 && present == size; }
    [[nodiscard]] bool unused() const { return size == 0 && values.empty() && waiting.empty(); }
  };
  struct Space {
    std::map<std::string, Scope> scopes{};
    std::size_t bytes = 0;
    bool holding = true;
  };
  struct Client {
    std::shared_ptr<Space> space;
    HorovodRequestReader reader{};
    std::size_t held = 0;    // bytes of a request that has not ended
    std::string waits_in{};  // scope; empty: it does not wait, or for its place
    bool asks = false;       // for its place
  };

  void get(std::uint32_t connection, Client& client, const HorovodRequest& request);
  void put(std::uint32_t connection, Space& space, HorovodRequest request);
  void remove(Space& space, const HorovodRequest& request);
  void release(Scope& scope);
  void wake(Scope& scope, const std::string& key);
  void tell_deserters();
  void forget(std::uint32_t connection);
  void answer(std::uint32_t connection, std::string_view status, const std::string& value = {},
              std::string why = {});
  void answer_from(const Scope& scope, const std::string& key, std::uint32_t connection);

  Callbacks callbacks_;
  std::shared_ptr<Space> space_ = std::make_shared<Space>();
  std::size_t size_ = 0;
  std::set<Rank> arrivals_, gone_;
  bool any_came_ = false;  // or has asked for another place
  std::map<std::uint32_t, Client> clients_;
  std::size_t held_ = 0;  // by all of them
  HorovodRounds rounds_;
};

}  // namespace trainrun::rendezvous
