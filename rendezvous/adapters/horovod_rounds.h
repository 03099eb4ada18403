// How ranks of Horovod's elastic programs go from one world to the next, without a byte of HTTP. A rank that
// has lost a peer, or heard that hosts change, shuts Horovod down and asks for its next place: rank_and_size,
// by its host and local rank. It is answered when
//
//   a world was planned in which it has a place,
//   all others that live have asked as well, and
//   those who start anew have come as far as the mesh of all.
//
// So nobody waits within Gloo, where a time-out ends the process, while somebody still reads its data. A rank
// that asks twice counts once; one without a place gets no answer, since Horovod would abort over it: it is
// to be ended.
//
// A rank whose program has not told where it can be notified is not elastic: it has shut Horovod down by
// itself, and keeps its place.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/base/id.h"

namespace trainrun::rendezvous {

// What a rank's variables HOROVOD_* say.
struct HorovodSeat {
  Rank rank;
  std::string host;
  std::uint32_t local_rank = 0, local_size = 0, cross_rank = 0, cross_size = 0;
  WorkerId worker{};
};

class HorovodRounds {
 public:
  struct Callbacks {
    std::function<void(std::uint32_t connection, const std::string& place)> answer;
    // In a world that survivors are in: it is there, or it has asked.
    std::function<void(Rank)> joined = nullptr;
    // All have met, and all are elastic.
    std::function<void()> formed = nullptr;
    // It has left the world, and wants its place in the next.
    std::function<void(WorkerId)> waits = nullptr;
    // It can neither go on nor be told so: it has no place, or is within hvd.init of a world that is over.
    std::function<void(WorkerId)> hopeless = nullptr;
  };

  explicit HorovodRounds(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  void begin(const std::vector<HorovodSeat>& world);
  void ask(std::uint32_t connection, const std::string& name);  // HOST:LOCAL_RANK
  void closed(std::uint32_t connection);
  void dismiss(WorkerId worker);
  // What ranks do in the current world: they tell where they can be notified, leave their address for the
  // mesh of all, are through with the last mesh of hvd.init. Who it is; 0: nobody. Whoever registers is
  // elastic.
  WorkerId registered(const std::string& name);
  void arrived(Rank rank);
  void initialised(std::uint32_t local_rank, std::uint32_t cross_rank);

  [[nodiscard]] bool elastic() const;
  // These are through with hvd.init, and elastic.
  [[nodiscard]] bool through(const std::set<Rank>& ranks) const;
  // Who waits for the others, before Horovod begins to meet.
  [[nodiscard]] std::set<Rank> asking() const;

 private:
  struct Member {
    HorovodSeat seat{};
    std::string name{};  // by which it asks: as it was told last
    bool told = true;    // its place in this world, by its environment or by an answer
    bool arrived = false;
    bool ready = false;  // through with hvd.init
    bool elastic = false;
    bool dismissed = false;
    std::set<std::uint32_t> connections{};
  };
  Member* find(const std::string& name);
  void release_if_all_are_there();
  void tell_if_formed();

  Callbacks callbacks_;
  std::map<WorkerId, Member> members_, leavers_;  // leavers_: of an earlier world alone
  std::size_t size_ = 0;
  bool formed_ = false;
  bool heard_ = false;  // of any rank: until then this is no job of Horovod, and nobody is within hvd.init
};

}  // namespace trainrun::rendezvous
