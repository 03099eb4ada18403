// A world that is being started: what all of its ranks have in common, found once when the generation begins,
// and from that the order to start each of them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/core/addresses.h"
#include "launcher/core/job_action.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"
#include "launcher/core/worker_env.h"
#include "launcher/wire/facts.h"
#include "launcher/wire/messages.h"

namespace trainrun::core {

class WorldStart {
 public:
  // `job` must live as long; hosts may be appended to it.
  explicit WorldStart(const JobSpec& job) : job_(job) {}

  // `facts` of the hosts that take part.
  void begin(const BeginWorld& order, const FactsByHost& facts);

  // What it will be with its newcomers: start orders with generation 0 refer to this placement. `facts` of
  // the hosts that are there by now.
  void plan(Placement with_newcomers, const FactsByHost& facts);

  [[nodiscard]] const Placement& placement() const { return placement_; }
  // That which the order is about.
  [[nodiscard]] const Seat& seat_of(const StartWorker& order) const {
    return placement_for(order).seats[order.rank.value];
  }
  [[nodiscard]] Generation generation() const { return placement_.generation; }
  [[nodiscard]] const std::string& host_of(Rank rank) const;
  [[nodiscard]] const std::vector<Rank>& ranks_on(HostIndex host) const;
  // As the other hosts reach it; empty: not known.
  [[nodiscard]] std::string address_of(HostIndex host) const;
  // No worker of an earlier generation is in it.
  [[nodiscard]] bool all_new() const { return all_new_; }
  [[nodiscard]] const std::string& mapping() const { return mapping_; }
  // Some of its ranks may meet by other means than a store of PyTorch.
  [[nodiscard]] bool meets_without_torch() const { return meets_without_torch_; }

  [[nodiscard]] bool has_stdin(Rank rank) const {
    return job_.stdin_to == StdinTo::all ||
           (job_.stdin_to == StdinTo::rank && job_.stdin_rank == static_cast<int>(rank.value));
  }

  // The host of a rank, as its agent made it ready.
  struct Site {
    std::string job_directory{};
    std::uint16_t rendezvous = 0, torch_store = 0, horovod = 0;  // ports of its doors; 0: there is none
    const wire::HostFacts* facts = nullptr;                      // never null
    bool can_inherit_stdin = false;                              // the agent has ours
  };
  // `order.share` lacks nothing.
  [[nodiscard]] wire::Start start(const StartWorker& order, const Site& site,
                                  std::uint16_t master_port) const;
  // What the rank's host is to be told before that, if its agent serves PMIx and does not know this world
  // yet.
  std::optional<wire::World> introduction(const StartWorker& order, const wire::HostFacts& facts);
  // The hosts that were told.
  [[nodiscard]] std::vector<HostIndex> introduced() const;

 private:
  [[nodiscard]] bool is_a_guess(const wire::HostFacts& facts, std::size_t program) const;
  [[nodiscard]] WorldFacts facts_of(const StartWorker& order, const Site& site,
                                    std::uint16_t master_port) const;
  [[nodiscard]] wire::StdinMode stdin_mode(const StartWorker& order, bool can_inherit) const;

  [[nodiscard]] static bool is_newcomer(const StartWorker& order) { return order.generation.value == 0; }
  [[nodiscard]] const Placement& placement_for(const StartWorker& order) const {
    return is_newcomer(order) ? later_ : placement_;
  }

  const JobSpec& job_;
  Placement placement_, later_;
  std::uint32_t restarts_ = 0;
  std::map<HostIndex, std::vector<Rank>> ranks_on_;
  std::map<HostIndex, std::string> addresses_;
  std::string mapping_;
  WorkerId newest_{};  // of all that were ever ordered
  bool all_new_ = true;
  bool pmix_everywhere_ = false;
  bool meets_without_torch_ = false;
  std::map<HostIndex, Generation> introduced_;  // the last world that its agent was told of
};

}  // namespace trainrun::core
