// What the ranks of one generation on this host want of PMIx, and what they are answered. Pure: messages of
// the helper and of the launcher and ends of ranks go in, effects come out, in order.
//
// libpmix does by itself what concerns this host alone. Here a fence over several hosts becomes a Gather, and
// what a rank wants to know of a rank elsewhere becomes an Ask (rendezvous/exchange.h).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/wire/messages.h"
#include "launcher/wire/pmix_messages.h"

namespace trainrun::agent {

class PmixWorld {
 public:
  static constexpr std::size_t most_gathered = 256u << 20;  // bytes of one fence, everybody's
  static constexpr std::size_t most_waiting = 65536;        // fences and questions

  struct Abort {
    WorkerId worker;
    int code = 0;
  };
  struct Tell {  // a line for the user
    std::string text;
  };
  struct Print {  // as if the rank had written it
    WorkerId worker;
    wire::Output stream = wire::Output::err;
    std::string text;
  };
  using Effect = std::variant<wire::pmix::Reply, wire::pmix::AskModex, wire::pmix::RankDied, wire::Gather,
                              wire::Ask, wire::Answer, Abort, Tell, Print>;
  using Effects = std::vector<Effect>;

  // Whether the lists of a World fit each other, so that it can be used.
  static bool is_whole(const wire::World& world);
  explicit PmixWorld(wire::World world);

  void add(WorkerId worker, Rank rank);
  // Of this generation; others are dropped.
  Effects received(const wire::pmix::Reached& message);
  Effects received(const wire::pmix::AbortAsked& message);
  Effects received(wire::pmix::FenceAsked message);
  Effects received(const wire::pmix::ModexAsked& message);
  Effects received(wire::pmix::Modex message);
  Effects received(const wire::pmix::Logged& message);
  Effects received(const wire::pmix::Refused& message);

  // The rank's process has ended, in whatever way.
  Effects left(WorkerId worker);
  Effects gathered(const wire::Gathered& message);
  // No exchange of this generation will ever be completed.
  Effects failed();
  // A rank of any host has failed, and the others go on.
  [[nodiscard]] Effects died(Rank rank) const;
  Effects asked(const wire::Ask& question);
  Effects answered(wire::Answer answer);

  // It has said init, and not finalize.
  [[nodiscard]] bool in_mpi(WorkerId worker) const;
  [[nodiscard]] bool has_spoken(WorkerId worker) const;
  // All ranks are on this host: their fences are libpmix's own, which goes on waiting for a rank that will
  // never come.
  [[nodiscard]] bool is_local() const { return is_here({}); }
  [[nodiscard]] const wire::World& world() const { return world_; }

 private:
  struct Client {
    Rank rank;
    bool connected = false, finalized = false, gone = false;
  };
  struct Fence {
    std::uint32_t number = 0;  // the helper's
    std::string bytes;
  };
  struct Group {
    std::uint32_t done = 0;    // fences that are complete
    std::deque<Fence> fences;  // the first one is under way
    std::vector<std::string> parts;
    std::size_t bytes = 0;
  };
  [[nodiscard]] bool is_here(const std::vector<Rank>& group) const;
  [[nodiscard]] bool is_valid(const std::vector<Rank>& group) const;
  [[nodiscard]] const Client* find(Rank rank, WorkerId* worker = nullptr) const;
  Effects send(const std::vector<Rank>& ranks, Group& group);
  Effects look_for_deserters();

  const wire::World world_;
  std::map<WorkerId, Client> clients_;
  std::map<std::vector<Rank>, Group> groups_;
  std::size_t waiting_ = 0;                  // fences of all groups
  std::map<std::uint32_t, Rank> questions_;  // of ours, by the helper's number
  std::set<std::uint32_t> asked_;            // by others, the launcher's numbers
  bool failed_ = false, told_missing_ = false;
  std::set<wire::pmix::Service> refused_;
};

}  // namespace trainrun::agent
