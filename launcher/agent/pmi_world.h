// What the ranks of one generation on this host say in PMI-1, and what they are answered. Pure: bytes and
// ends of ranks go in, effects come out, in order.
//
// Everything is answered here at once but the barrier, after which all must see what all have put: when every
// rank of this host is in it, one Gather with their new puts goes to the launcher, and one Gathered with
// everybody's comes back (rendezvous/exchange.h). A world on one host needs neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/agent/pmi1.h"
#include "launcher/base/id.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

class PmiWorld {
 public:
  static constexpr std::size_t most_held = 256u << 20;  // keys and values, everybody's

  struct Reply {
    WorkerId worker;
    std::string bytes;
  };
  struct HangUp {  // after what was answered before
    WorkerId worker;
  };
  struct Abort {
    WorkerId worker;
    int code = 0;
  };
  struct Tell {  // a line for the user
    std::string text;
  };
  using Effect = std::variant<Reply, HangUp, Abort, Tell, wire::Gather>;
  using Effects = std::vector<Effect>;

  PmiWorld(const std::string& job_id, Generation generation);

  void add(WorkerId worker, const wire::Place& place);
  Effects received(WorkerId worker, std::string_view bytes);
  // Its process has ended, in whatever way.
  Effects left(WorkerId worker);
  Effects gathered(const wire::Gathered& message);
  // No exchange of this generation will ever be completed.
  Effects failed(const std::string& reason);
  [[nodiscard]] wire::Answer answer(const wire::Ask& question) const;

  // It has said init, and not finalize.
  [[nodiscard]] bool in_mpi(WorkerId worker) const;
  [[nodiscard]] bool has_spoken(WorkerId worker) const;

 private:
  struct Client {
    wire::Place place;
    std::string line;  // not whole yet
    bool begun = false, finalized = false, in_barrier = false, gone = false, hung_up = false;
    bool in_block = false;  // of spawn
    int spawns_left = 0;    // blocks, the present one included
  };
  void speak(WorkerId worker, Client& client, std::string_view text);
  void speak_in_block(WorkerId worker, Client& client, std::string_view text);
  void init(WorkerId worker, Client& client, const pmi1::Line& line);
  void put(WorkerId worker, const pmi1::Line& line);
  void get(WorkerId worker, const Client& client, const pmi1::Line& line);
  void enter_barrier(WorkerId worker, Client& client, const pmi1::Line& line);
  void refuse(WorkerId worker, std::string_view answer, const std::string& what);
  void barrier_fails(WorkerId worker, Client& client);
  void no_pmi(WorkerId worker, Client& client);
  void reply(WorkerId worker, std::string bytes);
  void tell_once(const std::string& text);
  void look_at_barrier();
  void release();
  bool keep(std::string_view key, std::string_view value);

  const std::string name_;  // of the key space: unique for each job and generation
  const Generation generation_;
  std::map<WorkerId, Client> clients_;
  std::map<std::string, std::string, std::less<>> held_;
  std::size_t held_bytes_ = 0;
  std::vector<std::pair<std::string, std::string>> fresh_;  // puts that only this host knows
  std::size_t fresh_bytes_ = 0;
  std::uint32_t barriers_ = 0;  // that were completed
  bool asked_ = false;          // our part of the present one is on its way
  std::string failed_;          // why no barrier will be completed any more
  std::vector<std::string> told_;
  Effects effects_;
};

}  // namespace trainrun::agent
