#include "tests/sim/rendezvous_model.h"

#include <algorithm>

namespace trainrun::sim {
namespace {

// How long the table waits for the launcher's word about a connection that ended.
constexpr Duration patience = milliseconds(200);

}  // namespace

std::optional<std::uint32_t> RendezvousModel::rank_of(WorkerId worker) const {
  const auto it = std::find(members_.begin(), members_.end(), worker);
  if (it == members_.end()) return std::nullopt;
  return static_cast<std::uint32_t>(it - members_.begin());
}

void RendezvousModel::finish() {
  over_ = true;
  for (std::size_t rank = 0; rank < members_.size(); ++rank)
    if (seats_[rank] == Seat::taken) hands_.tell(members_[rank], {Word::Kind::over, generation_, {}, false});
}

void RendezvousModel::begin(Generation generation, std::vector<WorkerId> workers) {
  if (!over_) finish();
  generation_ = generation;
  members_ = std::move(workers);
  seats_.assign(members_.size(), Seat::empty);
  inelastic_.clear();
  formed_ = over_ = false;
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank)
    if (waiting_.erase(members_[rank]) > 0)
      hands_.tell(members_[rank], {Word::Kind::placed, generation_, {rank}, false});
}

void RendezvousModel::end(Generation generation) {
  if (generation == generation_ && !over_) finish();
}

void RendezvousModel::announce(Generation generation, const std::vector<WorkerId>& leaving) {
  if (generation != generation_ || over_) return;
  for (const auto worker : members_) {
    const bool stopping = std::find(leaving.begin(), leaving.end(), worker) != leaving.end();
    hands_.tell(worker, {Word::Kind::notice, generation_, {}, stopping});
  }
}

void RendezvousModel::dismiss(WorkerId worker) {
  dismissed_.insert(worker);
  if (waiting_.erase(worker) > 0) hands_.tell(worker, {Word::Kind::removed, generation_, {}, false});
}

void RendezvousModel::join(WorkerId worker, Generation generation, bool elastic) {
  const auto rank = rank_of(worker);
  if (!rank || generation != generation_ || over_)
    return hands_.tell(worker, {Word::Kind::over, generation, {}, false});
  seats_[*rank] = Seat::taken;
  if (!elastic) inelastic_.insert(worker);
  hands_.event(core::MemberJoined{generation_, {*rank}});
  if (formed_ || std::any_of(seats_.begin(), seats_.end(), [](Seat seat) { return seat != Seat::taken; }))
    return;
  formed_ = true;
  for (const auto member : members_) hands_.tell(member, {Word::Kind::formed, generation_, {}, false});
  hands_.event(core::WorldJoined{generation_, inelastic_.empty()});
}

void RendezvousModel::next(WorkerId worker, Generation after) {
  if (dismissed_.contains(worker)) return hands_.tell(worker, {Word::Kind::removed, generation_, {}, false});
  const auto rank = rank_of(worker);
  if (rank && after < generation_)
    return hands_.tell(worker, {Word::Kind::placed, generation_, {*rank}, false});
  waiting_[worker] = after;
  hands_.event(core::MemberWaits{after, worker});
  if (!rank || over_) return;
  seats_[*rank] = Seat::left;
  if (!formed_) break_up("a member gave up before all members were here", rank);
}

void RendezvousModel::leave(WorkerId worker) {
  if (const auto rank = rank_of(worker)) seats_[*rank] = Seat::left;
}

void RendezvousModel::closed(WorkerId worker) {
  waiting_.erase(worker);
  const auto rank = rank_of(worker);
  if (!rank || seats_[*rank] != Seat::taken || over_) return;
  seats_[*rank] = Seat::left;
  timeline_.in(patience, [this, generation = generation_, rank] {
    if (generation == generation_ && !over_) break_up("a member's connection ended", rank);
  });
}

void RendezvousModel::break_up(const char* reason, std::optional<std::uint32_t> culprit) {
  finish();
  core::WorldBroken broken{generation_, reason, {}};
  if (culprit) broken.culprits.push_back({*culprit});
  hands_.event(broken);
}

}  // namespace trainrun::sim
