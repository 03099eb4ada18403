// Ranks of MPI on several hosts, over the real PmiWorld, PmixWorld and Exchange: random schedules of messages
// that are late, double or of another generation, and of ranks that die or leave. What must hold:
//   who has passed a barrier or fence finds what every rank put before it, and never passes before all have
//   come; without a fault all ranks finish, with one nobody waits for ever. Where a job goes on without who
//   died (--on-failure ignore), the ranks of PMIx that have met before finish as well.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/wire/death_messages.h"
#include "rendezvous/exchange.h"
#include "tests/sim/random.h"

namespace trainrun::sim {

using Up = std::variant<wire::Gather, wire::Ask, wire::Answer>;
using Down = std::variant<wire::Gathered, wire::GatherFailed, wire::Ask, wire::Answer, wire::RankDied>;
struct Ended {  // a rank's process, as its agent tells it
  std::uint32_t generation = 0, rank = 0;
  bool well = false;
};

inline std::string value_of(std::uint32_t generation, std::uint32_t rank, std::uint32_t round) {
  return fmt::format("v{}.{}.{}", generation, rank, round);
}

// A rank: so many rounds of put, barrier and looks at what others have put.
struct RankState {
  std::uint32_t rank = 0, host = 0, round = 0;
  enum { starts, computes, in_barrier, looks, finished, dead } state = starts;
  int looks_left = 0;
  std::uint32_t asked_of = 0;  // whose value it waits for
  bool waits = false;          // for an answer
};

class Schedule {
 public:
  Schedule(std::uint64_t seed, bool trace) : random_(seed), trace_(trace) {}

  // Empty: all held.
  std::string run() {
    for (std::uint32_t generation = 1; generation <= 3 && wrong_.empty(); ++generation) play(generation);
    return wrong_;
  }

 protected:
  // Of one rank, what depends on the dialect.
  virtual void open() = 0;
  virtual void start(RankState& rank) = 0;
  virtual void enter(RankState& rank) = 0;
  virtual void look(RankState& rank, std::uint32_t of) = 0;
  virtual void finish(RankState& rank) = 0;
  virtual void gone(RankState& rank) = 0;
  virtual bool in_mpi(const RankState& rank) = 0;  // and then an exit with code 0 is a failure too
  virtual void heard(std::uint32_t host, const Down& message) = 0;
  // Who survives when another dies, the others of its host among them: whether they may still hear of a
  // failure.
  virtual bool survives_deaths() const { return false; }
  virtual void died_beside(std::uint32_t /*host*/) {}
  ~Schedule() = default;

  void send(std::uint32_t host, Up message) { up_[host].push_back(std::move(message)); }
  void passed(RankState& rank) {
    say("rank {} passes {}", rank.rank, rank.round);
    met_ = met_ || rank.round > 0;
    for (const auto& other : ranks_)
      if (other.round < rank.round && other.state != RankState::dead)
        fail(fmt::format("rank {} passed barrier {} before rank {} came", rank.rank, rank.round, other.rank));
    rank.waits = false;
    rank.state = RankState::looks;
    rank.looks_left = random_.from_to(0, 3);
  }
  void found(RankState& rank, const std::string& value) {
    if (value != value_of(generation_, rank.asked_of, rank.round))
      fail(fmt::format("rank {} found '{}' of rank {} in round {}", rank.rank, value, rank.asked_of,
                       rank.round));
    rank.waits = false;
  }
  // What it waited for will not come: it ends badly.
  void told_of_failure(RankState& rank) {
    if (!fault_) fail(fmt::format("rank {} was told of a failure, and there was none", rank.rank));
    if (!may_fail_) fail(fmt::format("rank {} was told of a failure, and the job goes on", rank.rank));
    end(rank, false);
  }
  void fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    if (trace_) std::printf("%s\n", fmt::format(text, std::forward<Args>(args)...).c_str());
  }

  Random random_;
  std::uint32_t generation_ = 0, hosts_ = 1;
  std::vector<RankState> ranks_;
  bool fault_ = false, goes_on_ = false;

 private:
  void play(std::uint32_t generation) {
    generation_ = generation;
    hosts_ = 1 + random_.below(4);
    rounds_ = 1 + random_.below(3);
    fault_ = met_ = false, may_fail_ = true;
    goes_on_ = random_.percent(30);
    ranks_.clear();
    up_.assign(hosts_, {}), down_.assign(hosts_, {}), ended_.assign(hosts_, {});
    std::vector<HostIndex> by_rank;
    for (std::uint32_t host = 0; host < hosts_; ++host)
      for (auto left = 1 + random_.below(3); left > 0; --left) {
        ranks_.push_back({.rank = static_cast<std::uint32_t>(ranks_.size()), .host = host});
        by_rank.push_back({host});
      }
    exchange_.begin({generation}, by_rank);
    open();
    const bool strikes = random_.percent(50);
    for (int step = 0; step < 20000 && wrong_.empty(); ++step) {
      if (strikes && random_.percent(1)) strike();
      if (!move()) break;
    }
    for (const auto& rank : ranks_)
      if (rank.state != RankState::finished && rank.state != RankState::dead)
        fail(fmt::format("rank {} waits for ever in round {}", rank.rank, rank.round));
  }

  // One thing that can happen; false: nothing can.
  bool move() {
    std::vector<std::function<void()>> moves;
    for (auto& rank : ranks_)
      if (!rank.waits && rank.state != RankState::finished && rank.state != RankState::dead)
        moves.emplace_back([this, &rank] { advance(rank); });
    for (std::uint32_t host = 0; host < hosts_; ++host) {
      if (!up_[host].empty()) moves.emplace_back([this, host] { launcher_hears(host); });
      if (!down_[host].empty()) moves.emplace_back([this, host] { agent_hears(host); });
      if (!ended_[host].empty()) moves.emplace_back([this, host] { launcher_hears_of_end(host); });
    }
    if (moves.empty()) return false;
    moves[random_.below(static_cast<std::uint32_t>(moves.size()))]();
    // What came before may come again, also from a generation that is over.
    if (!old_up_.empty() && random_.percent(10)) {
      const auto& [host, message] = random_.pick(old_up_);
      if (host < hosts_) take(host, message);
    }
    if (!old_down_.empty() && random_.percent(10)) {
      const auto [host, message] = random_.pick(old_down_);
      if (host < hosts_) heard(host, message);
    }
    return true;
  }

  void advance(RankState& rank) {
    switch (rank.state) {
      case RankState::starts:
        rank.state = RankState::computes;
        return start(rank);
      case RankState::looks:
        if (rank.looks_left-- > 0) {
          rank.asked_of = random_.below(static_cast<std::uint32_t>(ranks_.size()));
          if (ranks_[rank.asked_of].round < rank.round) return;  // dead before it came so far
          rank.waits = true;
          return look(rank, rank.asked_of);
        }
        rank.state = RankState::computes;
        return;
      case RankState::computes:
        if (rank.round == rounds_) {
          finish(rank);
          return end(rank, true);
        }
        ++rank.round;
        rank.state = RankState::in_barrier;
        rank.waits = true;
        say("rank {} enters {}", rank.rank, rank.round);
        return enter(rank);
      case RankState::in_barrier:
      case RankState::finished:
      case RankState::dead:
        return;
    }
  }

  void end(RankState& rank, bool well) {
    if (rank.state == RankState::finished || rank.state == RankState::dead) return;
    rank.waits = false;
    say("rank {} ends {}", rank.rank, well ? "well" : "badly");
    rank.state = well ? RankState::finished : RankState::dead;
    gone(rank);
    ended_[rank.host].push_back({generation_, rank.rank, well});
  }

  // A rank dies, or leaves with code 0 in the middle of it all.
  void strike() {
    auto& rank = ranks_[random_.below(static_cast<std::uint32_t>(ranks_.size()))];
    if (rank.state == RankState::finished || rank.state == RankState::dead) return;
    say("rank {} is struck", rank.rank);
    const bool leaves = random_.percent(50) && !in_mpi(rank);
    const bool may_fail = !goes_on_ || !survives_deaths() || leaves || !met_;
    may_fail_ = fault_ ? may_fail_ || may_fail : may_fail;
    fault_ = true;
    rank.state = RankState::dead;
    rank.waits = false;
    gone(rank);
    if (goes_on_) died_beside(rank.host);
    ended_[rank.host].push_back({generation_, rank.rank, leaves});
  }

  void launcher_hears(std::uint32_t host) {
    old_up_.emplace_back(host, up_[host].front());
    up_[host].pop_front();
    take(host, old_up_.back().second);
  }
  void take(std::uint32_t host, const Up& message) {
    if (const auto* gather = std::get_if<wire::Gather>(&message))
      perform(exchange_.gather({host}, *gather));
    else if (const auto* ask = std::get_if<wire::Ask>(&message))
      perform(exchange_.ask({host}, *ask));
    else
      perform(exchange_.answer({host}, std::get<wire::Answer>(message)));
  }
  void launcher_hears_of_end(std::uint32_t host) {
    const auto [generation, rank, well] = ended_[host].front();
    // Behind what its agent sent before.
    if (!up_[host].empty()) return launcher_hears(host);
    ended_[host].pop_front();
    if (well) return perform(exchange_.left({generation}, {rank}));
    if (!goes_on_) return perform(exchange_.end({generation}, "a rank failed"));
    for (auto& down : down_) down.emplace_back(wire::RankDied{{generation}, {rank}});
    perform(exchange_.died({generation}, {rank}));
  }
  void perform(const rendezvous::Exchange::Effects& effects) {
    for (const auto& send : effects.messages)
      for (const auto host : send.to)
        std::visit([&](const auto& message) { down_[host.value].push_back(message); }, send.message);
    // The brain ends the generation then.
    if (effects.broken && !fault_) fail("broken without a fault: " + effects.broken->reason);
  }
  void agent_hears(std::uint32_t host) {
    old_down_.emplace_back(host, down_[host].front());
    down_[host].pop_front();
    heard(host, old_down_.back().second);
  }

  const bool trace_;
  std::string wrong_;
  std::uint32_t rounds_ = 1;
  bool met_ = false;      // somebody has passed the first barrier
  bool may_fail_ = true;  // once there was a fault
  rendezvous::Exchange exchange_;
  std::vector<std::deque<Up>> up_;
  std::vector<std::deque<Down>> down_;
  std::vector<std::deque<Ended>> ended_;
  std::vector<std::pair<std::uint32_t, Up>> old_up_;
  std::vector<std::pair<std::uint32_t, Down>> old_down_;
};

}  // namespace trainrun::sim
