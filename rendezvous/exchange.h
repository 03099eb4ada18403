// What ranks exchange by way of their agents: `allgather`, by which every host of a group gets what all of
// its hosts have, and `ask`, a question to the agent of one rank. PMI and PMIx stand on
// the two (agent/pmi_world.h, pmix_world.h), each with exchanges of its own.
// A host sends one message for all of its ranks and gets the answer once, so that an exchange costs what
// there are hosts, not ranks.
//
// Pure: requests in, messages out. One generation is open at a time; what belongs to another one, comes twice
// or comes late is dropped. Nothing here waits for a time: an exchange lasts as long as its ranks compute. It
// ends for all at once when one of them has ended, or with the generation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/wire/messages.h"

namespace trainrun::rendezvous {

class Exchange {
 public:
  // Bytes of all parts of one exchange; the launcher holds them until the last host has sent its own.
  static constexpr std::size_t most_bytes = 256u << 20;
  static constexpr std::size_t most_questions = 4096;  // that wait for an answer
  static constexpr std::size_t most_groups = 4096;
  static constexpr std::size_t longest_key = 1024;

  // One message to each of these hosts.
  struct Send {
    std::vector<HostIndex> to;
    std::variant<wire::Gathered, wire::GatherFailed, wire::Ask, wire::Answer> message;
  };
  // An exchange can never be completed: these ranks have ended without it. With none the fault is an agent's.
  struct Broken {
    Generation generation;
    std::vector<Rank> culprits;
    std::string reason;
  };
  struct Effects {
    std::vector<Send> messages{};
    std::optional<Broken> broken{};
  };

  // The generation opens; `hosts` says where each rank is. An earlier one is over.
  void begin(Generation generation, std::vector<HostIndex> hosts);
  // All that is pending, and all that may come of this generation, fails.
  Effects end(Generation generation, const std::string& reason);
  // The same, because that by which a host's ranks exchange has gone.
  Effects lost(const wire::ExchangeLost& loss);
  // The rank's process has ended well. What still waits for it, or ever will, fails.
  Effects left(Generation generation, Rank rank);

  // The rank has failed, and the others are to go on: once the world has met, exchanges are completed without
  // it. Before that it is missed as one that has left.
  Effects died(Generation generation, Rank rank);

  Effects gather(HostIndex from, wire::Gather part);
  Effects ask(HostIndex from, const wire::Ask& question);
  Effects answer(HostIndex from, wire::Answer answer);

 private:
  struct Pending {
    std::map<HostIndex, std::string> parts;
    std::size_t bytes = 0;
  };
  struct Group {
    std::vector<HostIndex> hosts;  // ascending
    std::uint32_t done = 0;        // exchanges that are complete
    std::optional<Pending> pending;
  };
  struct Question {
    HostIndex from, to;
    std::uint32_t number = 0;  // the asker's
  };

  using Key = std::pair<wire::Dialect, std::vector<Rank>>;
  [[nodiscard]] bool is_open(Generation generation) const { return open_ && generation == generation_; }
  [[nodiscard]] bool is_group(const std::vector<Rank>& ranks) const;
  [[nodiscard]] std::vector<HostIndex> hosts_of(const std::vector<Rank>& ranks) const;
  [[nodiscard]] bool all_came(const std::vector<Rank>& ranks, const Group& group) const;
  [[nodiscard]] Effects complete(const Key& key, Group& group) const;
  Effects fail(std::vector<Rank> culprits, const std::string& reason);
  Effects fail_for(std::vector<Rank> gone);

  Generation generation_{};
  bool open_ = false;
  std::vector<HostIndex> hosts_;  // by rank
  std::set<Rank> gone_, excused_;
  std::map<Key, Group> groups_;
  std::map<std::uint32_t, Question> questions_;
  std::uint32_t last_question_ = 0;
};

}  // namespace trainrun::rendezvous
