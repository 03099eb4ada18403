// Who has come to the store of PyTorch's that rank 0 holds, by what the agents see of it, and when it is time
// to say who has not. Pure.
//
// Three findings, each once a generation: some wait for others, a while after they came; nobody has come
// though all have loaded PyTorch, for longer: they may still be loading; and nobody had come when all had
// ended well: each may have taken itself for a world of one. Ranks that meet by other means, as those of
// Horovod, MPI and comm, or at a port of their own, are not spoken of.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/wire/messages.h"

namespace trainrun {

// What is to be told. All empty: nothing.
struct StoreFindings {
  // A rank that serves a port, or is connected to one that some rank serves, and is not at the store.
  struct Elsewhere {
    WorkerId worker;
    std::uint16_t port = 0;
    bool listens = false, meets = false;  // another rank
  };
  std::vector<WorkerId> absent{};      // by rank; all: nobody has come
  std::vector<Elsewhere> elsewhere{};  // by rank
  // Nobody has come to the store, and some, not all of them, meet elsewhere: they are not `absent`.
  bool some_meet_elsewhere = false;
  std::vector<WorkerId> hosts{};  // several of them listen at the store's port, each for itself
  bool unasked = false;           // their script stays alone here unless it is told to use the CPU
  // All of so many have come, and rank 0 waits for more: for how long.
  std::size_t all_of = 0;
  Duration idle{};
};

class StoreCensus {
 public:
  // Who ends sooner after PyTorch was seen in it has hardly trained.
  // Imports and data are slow: a slow machine takes half a minute for `import torch` alone.
  static constexpr Duration waits_for = seconds(10), alone_for = seconds(60), least_life = seconds(2);

  // `workers` by rank; none: there is nothing to be found out.
  // `own_store`: the launcher holds it and names who is missing, once somebody has come.
  void begin(Generation generation, std::vector<WorkerId> workers, bool own_store = false);
  // The ranks of this generation meet by other means, or are about to.
  void meet_elsewhere(Generation generation) { told_alone_ |= generation == generation_; }
  // One of them has met others by comm, as after init_process_group("trainrun"): if there was a store, this
  // rank has been there, though nobody may have looked meanwhile.
  void joined(Generation generation, Rank rank);
  // It has ended well, and will not come any more.
  StoreFindings ended(WorkerId worker, Instant now);
  // Gives what there is, if it is time to say so. Nobody is named by what was seen before the time to wait
  // had passed.
  StoreFindings seen(const wire::StoreSeen& by_agent, Instant now);
  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Those that live and have not come so far, while others have; empty also where some may meet elsewhere.
  [[nodiscard]] std::vector<WorkerId> awaited() const;

 private:
  void learn(const wire::StoreSeen& by_agent, Instant now);
  [[nodiscard]] std::vector<WorkerId> missing_after(Instant when) const;
  [[nodiscard]] std::vector<StoreFindings::Elsewhere> elsewhere() const;
  // Nothing: some have not loaded PyTorch.
  [[nodiscard]] std::optional<Instant> all_loaded(bool with_ended) const;
  [[nodiscard]] StoreFindings alone(std::vector<WorkerId> missing) const;

  Generation generation_{};
  std::vector<WorkerId> workers_;
  std::set<WorkerId> met_, joined_, ended_, hosts_;
  std::map<WorkerId, Instant> absent_at_;  // when it was last seen to be
  std::map<WorkerId, Instant> loaded_at_;  // when it was first seen to have PyTorch
  std::map<WorkerId, wire::PortsOfRank> ports_;
  std::optional<Instant> first_met_;
  std::uint16_t port_ = 0;
  bool own_store_ = false;
  bool told_waits_ = false, told_hosts_ = false, told_unasked_ = false, told_idle_ = false;
  bool told_so_far_ = false;  // that none has come yet
  bool told_alone_ = false;   // or nothing of it is to be told
  bool traces_ = false;       // somebody met, and nobody was looked at meanwhile
  bool listened_ = false;     // somebody did, or may have, at another port: others may have come and gone
};

}  // namespace trainrun
