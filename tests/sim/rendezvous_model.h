// A small model of the rendezvous: who has joined the generation, who waits for a place in the next. It keeps
// the order and the rules of rendezvous::Table as far as the brain can see them, without its bytes and its
// blobs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "launcher/core/job_event.h"
#include "tests/sim/timeline.h"

namespace trainrun::sim {

struct Word {  // to a member
  enum class Kind : std::uint8_t { formed, over, placed, removed, notice };
  Kind kind = Kind::over;
  Generation generation{};
  Rank rank{};            // placed
  bool stopping = false;  // notice
};

class RendezvousModel {
 public:
  struct Hands {
    std::function<void(WorkerId, Word)> tell;
    std::function<void(core::JobEvent)> event;
  };
  RendezvousModel(Timeline& timeline, Hands hands) : timeline_(timeline), hands_(std::move(hands)) {}

  // the launcher
  void begin(Generation generation, std::vector<WorkerId> workers);
  void end(Generation generation);
  void announce(Generation generation, const std::vector<WorkerId>& leaving);
  void dismiss(WorkerId worker);

  // members
  void join(WorkerId worker, Generation generation, bool elastic);
  void next(WorkerId worker, Generation after);
  void leave(WorkerId worker);
  void closed(WorkerId worker);

 private:
  enum class Seat : std::uint8_t { empty, taken, left };
  [[nodiscard]] std::optional<std::uint32_t> rank_of(WorkerId worker) const;
  void finish();
  void break_up(const char* reason, std::optional<std::uint32_t> culprit);

  Timeline& timeline_;
  Hands hands_;
  Generation generation_{};
  std::vector<WorkerId> members_;
  std::vector<Seat> seats_;
  std::set<WorkerId> inelastic_;
  bool formed_ = false, over_ = true;
  std::map<WorkerId, Generation> waiting_;
  std::set<WorkerId> dismissed_, ears_;
};

}  // namespace trainrun::sim
