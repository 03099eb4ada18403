// The ranks of exchange_schedule.h, as clients of PMI-1 and of PMIx; the helper's libpmix is played as well.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "launcher/agent/pmi_world.h"
#include "launcher/agent/pmix_world.h"
#include "tests/sim/exchange_schedule.h"

namespace trainrun::sim {

inline WorkerId worker_of(const RankState& rank) { return {rank.rank + 1}; }

class Pmi final : public Schedule {
 public:
  using Schedule::Schedule;

 private:
  using World = agent::PmiWorld;
  static constexpr std::string_view job = "0123456789abcdef";

  void open() override {
    worlds_.clear();
    for (std::uint32_t host = 0; host < hosts_; ++host)
      worlds_.push_back(std::make_unique<World>(std::string(job), Generation{generation_}));
    for (const auto& rank : ranks_) {
      const auto local = std::count_if(ranks_.begin(), ranks_.end(),
                                       [&](const RankState& other) { return other.host == rank.host; });
      worlds_[rank.host]->add(worker_of(rank), {Rank{rank.rank}, static_cast<std::uint32_t>(ranks_.size()),
                                                static_cast<std::uint32_t>(local), 0, "(vector,(0,1,1))"});
    }
  }
  void start(RankState& rank) override { speak(rank, "cmd=init pmi_version=1 pmi_subversion=1\n"); }
  void enter(RankState& rank) override {
    speak(rank, fmt::format("cmd=put kvsname={}.g{} key=k{}.{} value={}\ncmd=barrier_in\n", job, generation_,
                            rank.round, rank.rank, value_of(generation_, rank.rank, rank.round)));
  }
  void look(RankState& rank, std::uint32_t of) override {
    speak(rank, fmt::format("cmd=get kvsname={}.g{} key=k{}.{}\n", job, generation_, rank.round, of));
  }
  void finish(RankState& rank) override { speak(rank, "cmd=finalize\n"); }
  void gone(RankState& rank) override { take(rank.host, worlds_[rank.host]->left(worker_of(rank))); }
  bool in_mpi(const RankState& rank) override { return worlds_[rank.host]->in_mpi(worker_of(rank)); }

  // In pieces, as a socket gives them.
  void speak(RankState& rank, std::string_view text) {
    while (!text.empty()) {
      const auto piece = text.substr(0, 1 + random_.below(40));
      text.remove_prefix(piece.size());
      take(rank.host, worlds_[rank.host]->received(worker_of(rank), piece));
    }
  }
  void heard(std::uint32_t host, const Down& message) override {
    auto& world = *worlds_[host];
    if (const auto* all = std::get_if<wire::Gathered>(&message)) {
      if (all->generation.value == generation_) take(host, world.gathered(*all));
    } else if (const auto* failure = std::get_if<wire::GatherFailed>(&message)) {
      if (failure->generation.value == generation_) take(host, world.failed(failure->reason));
    }
  }
  void take(std::uint32_t host, World::Effects effects) {
    for (auto& effect : effects) {
      if (auto* gather = std::get_if<wire::Gather>(&effect)) {
        send(host, std::move(*gather));
      } else if (const auto* reply = std::get_if<World::Reply>(&effect)) {
        answered(ranks_[reply->worker.value - 1], reply->bytes);
      } else if (const auto* hang_up = std::get_if<World::HangUp>(&effect)) {
        told_of_failure(ranks_[hang_up->worker.value - 1]);
      }
    }
  }
  void answered(RankState& rank, const std::string& line) {
    if (line.starts_with("cmd=barrier_out rc=0")) return passed(rank);
    if (!line.starts_with("cmd=get_result")) return;
    const auto at = line.rfind("value=");
    found(rank, line.substr(at + 6, line.size() - at - 7));
  }

  std::vector<std::unique_ptr<World>> worlds_;
};

class Pmix final : public Schedule {
 public:
  using Schedule::Schedule;

 private:
  using World = agent::PmixWorld;

  void open() override {
    worlds_.clear(), fences_.clear(), questions_.clear(), failed_.clear();
    for (std::uint32_t host = 0; host < hosts_; ++host) {
      wire::World world;
      world.generation = Generation{generation_};
      world.here = host;
      world.programs = {{{"./program"}, "/"}};
      for (std::uint32_t i = 0; i < hosts_; ++i) world.hosts.push_back(fmt::format("node{}", i));
      for (const auto& rank : ranks_) {
        world.host_of_rank.push_back(rank.host);
        world.program_of_rank.push_back(0);
      }
      worlds_.push_back(std::make_unique<World>(std::move(world)));
    }
    for (const auto& rank : ranks_) worlds_[rank.host]->add(worker_of(rank), Rank{rank.rank});
  }
  void start(RankState& rank) override { reach(rank, wire::pmix::Stage::connected); }
  void finish(RankState& rank) override { reach(rank, wire::pmix::Stage::finalized); }
  void reach(RankState& rank, wire::pmix::Stage stage) {
    take(rank.host,
         worlds_[rank.host]->received(wire::pmix::Reached{Generation{generation_}, Rank{rank.rank}, stage}));
  }
  void gone(RankState& rank) override { take(rank.host, worlds_[rank.host]->left(worker_of(rank))); }
  bool in_mpi(const RankState& rank) override { return worlds_[rank.host]->in_mpi(worker_of(rank)); }

  bool survives_deaths() const override { return true; }
  // libpmix counts the ranks of its host that live, and asks when the last one has come.
  void enter(RankState& rank) override {
    std::string bytes;
    for (const auto& one : ranks_) {
      if (one.host != rank.host || (goes_on_ && one.state == RankState::dead)) continue;
      if (one.state == RankState::in_barrier && one.round == rank.round) continue;
      if (failed_.contains(rank.host)) ended_with_the_job(rank);
      return;
    }
    for (const auto& one : ranks_) {
      if (one.host != rank.host || one.state == RankState::dead) continue;
      bytes += value_of(generation_, one.rank, one.round) + ";";
    }
    fences_[++last_number_] = rank.host;
    take(rank.host, worlds_[rank.host]->received(
                        wire::pmix::FenceAsked{Generation{generation_}, last_number_, {}, std::move(bytes)}));
  }
  // It may have been the last one that the others waited for.
  void died_beside(std::uint32_t host) override {
    for (const auto& [number, of] : fences_)
      if (of == host) return;
    for (auto& rank : ranks_)
      if (rank.host == host && rank.state == RankState::in_barrier && rank.waits) return enter(rank);
  }
  void look(RankState& rank, std::uint32_t of) override {
    if (ranks_[of].host == rank.host) return found(rank, in(blob_of(of), rank));
    questions_[++last_number_] = rank.rank;
    take(rank.host, worlds_[rank.host]->received(
                        wire::pmix::ModexAsked{Generation{generation_}, last_number_, Rank{of}}));
  }
  [[nodiscard]] std::string blob_of(std::uint32_t of) const {
    std::string blob;
    for (std::uint32_t round = 1; round <= ranks_[of].round; ++round)
      blob += value_of(generation_, of, round) + ";";
    return blob;
  }
  [[nodiscard]] std::string in(const std::string& blob, const RankState& rank) const {
    const auto wanted = value_of(generation_, rank.asked_of, rank.round);
    return blob.find(wanted + ";") == std::string::npos ? "nothing in " + blob : wanted;
  }

  void heard(std::uint32_t host, const Down& message) override {
    auto& world = *worlds_[host];
    if (const auto* all = std::get_if<wire::Gathered>(&message)) return take(host, world.gathered(*all));
    if (const auto* ask = std::get_if<wire::Ask>(&message)) return take(host, world.asked(*ask));
    if (const auto* answer = std::get_if<wire::Answer>(&message)) return take(host, world.answered(*answer));
    if (const auto* death = std::get_if<wire::RankDied>(&message)) {
      if (death->generation.value == generation_) take(host, world.died(death->rank));
      return;
    }
    if (std::get<wire::GatherFailed>(message).generation.value != generation_) return;
    take(host, world.failed());
    for (const auto& [number, of] : fences_)
      if (of == host) fail(fmt::format("fence {} was not answered when all failed", number));
    for (const auto& [number, rank] : questions_)
      if (ranks_[rank].host == host)
        fail(fmt::format("question {} was not answered when all failed", number));
    failed_.insert(host);
    for (auto& rank : ranks_)
      if (rank.host == host && rank.waits) ended_with_the_job(rank);
  }
  // libpmix waits by itself for ranks of its host, and does not hear of failures elsewhere.
  void ended_with_the_job(RankState& rank) { told_of_failure(rank); }
  void take(std::uint32_t host, World::Effects effects) {
    for (auto& effect : effects) {
      if (auto* gather = std::get_if<wire::Gather>(&effect)) {
        send(host, std::move(*gather));
      } else if (auto* ask = std::get_if<wire::Ask>(&effect)) {
        send(host, std::move(*ask));
      } else if (auto* answer = std::get_if<wire::Answer>(&effect)) {
        send(host, std::move(*answer));
      } else if (const auto* modex = std::get_if<wire::pmix::AskModex>(&effect)) {
        take(host, worlds_[host]->received(wire::pmix::Modex{modex->number, 0, blob_of(modex->rank.value)}));
      } else if (const auto* reply = std::get_if<wire::pmix::Reply>(&effect)) {
        answered(host, *reply);
      }
    }
  }
  void answered(std::uint32_t host, const wire::pmix::Reply& reply) {
    if (const auto asked = questions_.find(reply.number); asked != questions_.end()) {
      auto& rank = ranks_[asked->second];
      questions_.erase(asked);
      if (!rank.waits) return;
      if (reply.status != 0) return told_of_failure(rank);
      return found(rank, in(reply.parts.front(), rank));
    }
    if (fences_.erase(reply.number) == 0) return fail(fmt::format("an answer {} to nothing", reply.number));
    std::string all;
    for (const auto& part : reply.parts) all += part;
    for (auto& rank : ranks_) {
      if (rank.host != host || rank.state != RankState::in_barrier || !rank.waits) continue;
      if (reply.status != 0) {
        told_of_failure(rank);
        continue;
      }
      for (const auto& other : ranks_)
        if (other.state != RankState::dead &&
            all.find(value_of(generation_, other.rank, rank.round) + ";") == std::string::npos)
          fail(fmt::format("a fence of round {} without what rank {} has put", rank.round, other.rank));
      passed(rank);
    }
  }

  std::vector<std::unique_ptr<World>> worlds_;
  std::map<std::uint32_t, std::uint32_t> fences_;     // host, by the helper's number
  std::map<std::uint32_t, std::uint32_t> questions_;  // rank
  std::set<std::uint32_t> failed_;                    // hosts whose exchanges have failed
  std::uint32_t last_number_ = 0;
};

}  // namespace trainrun::sim
