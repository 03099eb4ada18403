// A job of any size without a process or a socket: the real brain, the real rendezvous behind the real hub
// with its encryption, and around them hosts and members that do what they are told at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/job_machine.h"
#include "launcher/io/loop.h"
#include "launcher/rendezvous_hub.h"
#include "rendezvous/protocol.h"
#include "tests/bench/scale/cost.h"

namespace trainrun::bench {

class Fleet {
 public:
  enum class Kind : std::uint8_t { fixed, elastic };
  Fleet(std::uint32_t hosts, std::uint32_t ranks_a_host, Kind kind = Kind::fixed);

  // A life, in this order. Each gives the number of events (or of requests to the rendezvous).
  std::uint64_t ready();     // every host's agent answers but the last one's
  std::uint64_t start();     // which answers, and a port is held: two events about all ranks, so these count
  std::uint64_t started();   // every worker runs
  std::uint64_t join();      // every worker connects, proves the key, joins, and hears its place
  std::uint64_t heard();     // which the hub has told the brain
  std::uint64_t barrier();   // of all
  std::uint64_t leave();     // every worker leaves and closes its connection
  std::uint64_t exited();    // every worker ends with 0
  std::uint64_t finished();  // and its output is through
  std::uint64_t stopped();   // every agent has cleared up and gone

  // What went wrong so far; empty: nothing.
  [[nodiscard]] const std::string& wrong() const { return wrong_; }
  // What members did themselves, which is no cost of the launcher.
  [[nodiscard]] const Cost& cost_of_members() const { return cost_of_members_; }
  // Bytes of the rendezvous to all members.
  [[nodiscard]] std::uint64_t bytes_to_members() const { return bytes_to_members_; }
  [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(workers_.size()); }

 private:
  struct Member {
    HostIndex host;
    std::optional<rendezvous::SecureChannel> channel;
    std::string inbox, outbox;
    std::size_t read = 0;  // and the hub does not know yet
  };

  void tell(const core::JobEvent& event);
  void perform(const core::BeginWorld& order);
  void perform(const core::EndGeneration& order);
  // Until no member and the hub have a byte for each other.
  void exchange();
  // Each member does so, by itself.
  template <class Work>
  void members(Work work);
  // Each asks, and all get their answer.
  template <class Reply, class Request>
  void ask(Request request);
  void broken(const std::string& what);

  JobSpec spec_;
  std::shared_ptr<const wire::HostFacts> facts_;
  core::JobMachine machine_;
  io::Loop loop_;
  const rendezvous::Key key_ = rendezvous::random_key();
  RendezvousHub hub_;
  const Instant now_ = io::Loop::now();
  std::vector<HostIndex> dialled_, stopping_;
  std::optional<Generation> port_wanted_;
  std::vector<WorkerId> workers_;  // by rank
  std::vector<Member> members_;    // by rank; a member's stream has its rank as number
  std::uint64_t told_ = 0, bytes_to_members_ = 0;
  Cost cost_of_members_;
  std::optional<core::Outcome> outcome_;
  std::string wrong_;
};

}  // namespace trainrun::bench
