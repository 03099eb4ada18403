#include "launcher/core/world.h"

#include <algorithm>

namespace trainrun::core {

void World::plan(Placement next) {
  placement_ = std::move(next);
  begun_ = false;
}

void World::begin(std::vector<WorkerId> members) {
  begun_ = true;
  by_rank_ = std::move(members);
  for (auto& host : on_) host.ranks.clear();
  for (const auto& seat : placement_.seats) on_host(seat.host).ranks.push_back(seat.rank);
}

std::vector<Rank> World::ranks_on(HostIndex host) const {
  return begun_ ? on_host(host).ranks : std::vector<Rank>{};
}

WorkerId World::order(const Seat& seat, Instant now) {
  ++last_.value;
  const auto& worker =
      workers_.emplace_hint(workers_.end(), last_, Worker{.id = last_, .seat = seat, .since = now})->second;
  on_host(seat.host).workers.push_back(last_);
  count(worker, +1);
  return last_;
}

WorkerId World::order_newcomer(const Seat& seat, Instant now) {
  const auto id = order(seat, now);
  change(id, [](Worker& worker) {
    worker.member = false;
    worker.newcomer = true;
  });
  return id;
}

void World::admit(WorkerId id, const Seat& seat) {
  change(id, [&seat](Worker& worker) {
    worker.seat = seat;
    worker.member = true;
    worker.newcomer = worker.joined = worker.waits = false;
    if (worker.fate == Fate::asked_to_leave) worker.fate = Fate::stays;
    worker.leaves_by.reset();
  });
}

const Worker* World::find(WorkerId id) const {
  const auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

// A member leaves the world, and its rank with it; ranks are given anew with the next world alone.
const Worker* World::member_at(Rank rank) const {
  const auto* worker = rank.value < by_rank_.size() ? find(by_rank_[rank.value]) : nullptr;
  return worker != nullptr && worker->member ? worker : nullptr;
}

void World::doom(WorkerId id, Fate fate) {
  change(id, [fate](Worker& worker) { worker.fate = std::max(worker.fate, fate); });
}

void World::failed(WorkerId id, const Failure& failure, std::string last_words) {
  change(id, [&](Worker& worker) {
    worker.failure = failure;
    worker.failure->last_words = std::move(last_words);
  });
}

void World::forget(WorkerId id) {
  const auto it = workers_.find(id);
  count(it->second, -1);
  std::erase(on_host(it->second.seat.host).workers, id);
  workers_.erase(it);
}

const World::Workers& World::all() const {
  visited_ += workers_.size();
  return workers_;
}

const std::vector<WorkerId>& World::on(HostIndex host) const {
  const auto& workers = on_host(host).workers;
  visited_ += workers.size();
  return workers;
}

const World::OnHost& World::on_host(HostIndex host) const {
  static const OnHost nobody;
  return host.value < on_.size() ? on_[host.value] : nobody;
}

World::OnHost& World::on_host(HostIndex host) {
  if (host.value >= on_.size()) on_.resize(host.value + 1);
  return on_[host.value];
}

void World::count(const Worker& worker, int by) {
  count(worker, by, counts_);
  auto& host = on_host(worker.seat.host);
  const bool unfinished = worker.state != WorkerState::finished;
  host.live_members += worker.member && unfinished ? by : 0;
  host.unfinished += unfinished ? by : 0;
  host.survivors += worker.survives() ? by : 0;
  const auto keep = [&](std::set<WorkerId>& in, bool belongs) {
    if (belongs && by > 0) in.insert(worker.id);
    if (belongs && by < 0) in.erase(worker.id);
  };
  keep(failed_, worker.member && worker.failure);
  keep(dismissed_, worker.has_no_place() && worker.alive());
  keep(newcomers_, worker.may_join());
}

void World::count(const Worker& worker, int by, Counts& counts) {
  const auto add = [by](int& number, bool it_is) { number += it_is ? by : 0; };
  const bool alive = worker.alive();
  add(counts.alive, alive);
  add(counts.to_end, alive && worker.condemned());
  add(counts.newcomers_that_wait, worker.may_join() && worker.waits);
  if (!worker.member) return;
  counts.members += by;
  counts.members_in[static_cast<std::size_t>(worker.state)] += by;
  add(counts.survivors, worker.survives());
  add(counts.survivors_that_wait, worker.survives() && worker.waits);
  add(counts.members_that_wait, alive && worker.waits);
  add(counts.awaited_members, worker.awaited());
  add(counts.joined, alive && worker.joined);
  add(counts.took_part, worker.joined || worker.has_state);
  add(counts.ended_well, worker.ended_well());
  add(counts.finished_badly, worker.state == WorkerState::finished && !worker.status.success());
  add(counts.alive_without_failure, alive && !worker.failure);
}

std::string World::broken_invariant() const {
  Counts sum;
  std::vector<int> unfinished(on_.size(), 0);
  for (const auto& [id, worker] : workers_) {
    count(worker, +1, sum);
    unfinished[worker.seat.host.value] += worker.state != WorkerState::finished ? 1 : 0;
    if (begun_ && worker.member && member_at(worker.seat.rank) != &worker) return "a member is not found";
    if (failed_.contains(id) != (worker.member && worker.failure)) return "a failure is not kept";
    if (newcomers_.contains(id) != worker.may_join()) return "a newcomer is not kept";
  }
  if (sum != counts_) return "workers are counted wrongly";
  for (std::size_t i = 0; i < on_.size(); ++i)
    if (on_[i].unfinished != unfinished[i]) return "workers of a host are counted wrongly";
  return {};
}

}  // namespace trainrun::core
