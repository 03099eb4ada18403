// Which hosts are reached: as many as the largest world and its spares need, none that rests or was tried a
// moment ago while others do.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "launcher/core/replan.h"
#include "tests/sim/judge.h"

namespace trainrun::sim {

using namespace core;
using Phase = JobMachine::Phase;

namespace {

constexpr Duration longest_retry = seconds(30), agent_notices_later = seconds(2);

Duration pause_after(int failures) {
  return std::min<Duration>(longest_retry, seconds(std::int64_t{1} << std::min(failures - 1, 5)));
}

}  // namespace

// It could not be reached, or its agent went: it is not tried again at once.
void Judge::note_trouble(HostIndex index, bool blamed) {
  auto& it = host(index);
  if (!goes_on()) return;
  ++it.failures;
  it.good = it.stays = false;
  it.not_before = now_ + pause_after(it.failures);
  const auto least = std::max<Duration>(scenario_.spec.elastic.cooldown_min,
                                        scenario_.spec.host_timeout + agent_notices_later);
  if (blamed) it.rests_until = now_ + least;
}

// Before the event is taken down.
void Judge::note_hosts(const JobEvent& event) {
  if (const auto* failed = std::get_if<HostFailed>(&event);
      failed != nullptr && host(failed->host).link == Link::dialling)
    note_trouble(failed->host, false);
  if (const auto* lost = std::get_if<HostLost>(&event);
      lost != nullptr && host(lost->host).link != Link::none) {
    const auto& it = host(lost->host);
    note_trouble(lost->host, it.link == Link::ready && !it.leaving && !it.removed);
    goes(lost->host);
    ++hosts_lost_;
  }
  if (const auto* stopped = std::get_if<HostStopped>(&event)) goes(stopped->host);
  if (const auto* ready = std::get_if<HostReady>(&event);
      ready != nullptr && host(ready->host).link == Link::dialling)
    host(ready->host).failures = 0;
  if (const auto* leaves = std::get_if<HostLeaving>(&event))
    host(leaves->host).good = host(leaves->host).stays = false;
  if (const auto* removed = std::get_if<RemoveHost>(&event))
    for (auto& it : hosts_)
      if (it.host.name == removed->name) it.good = it.stays = false;
  if (const auto* add = std::get_if<AddHosts>(&event)) note_added(*add);
  if (const auto* exited = std::get_if<WorkerExited>(&event)) note_sick(exited->worker, exited->status);
  if (const auto* none = std::get_if<WorkerNotStarted>(&event)) note_sick(none->worker, none->status);
}

// A host on which ranks fail again and again may have to rest.
void Judge::note_sick(WorkerId id, const ExitStatus& status) {
  constexpr int tolerated = 2;
  const auto it = workers_.find(id);
  if (it == workers_.end() || status.success() || std::exchange(it->second.counted_as_sick, true)) return;
  auto& on = host(it->second.seat.host);
  if (++on.ranks_failed > tolerated) on.good = false;
  on.sick_at = now_;
}

void Judge::note_stopped(Rank rank) {
  slot_stopped_ = true;
  if (!world_ || rank.value >= world_->placement.seats.size()) return;
  ++host(world_->placement.seats[rank.value].host).stopped;
}

int Judge::slots_there(HostIndex index) const {
  return slots_of(scenario_.spec, hosts_.at(index.value).host);
}

// The user wants it now.
void Judge::note_added(const AddHosts& add) {
  if (!goes_on()) return;
  for (auto& it : hosts_)
    for (const auto& one : add.hosts)
      if (it.host.name == one.name) {
        it.not_before = it.rests_until = it.away_until = {};
        it.left_out_at.reset();
        it.stopped = 0;
      }
}

// One that went by its own word is not asked before the longest rest is over.
void Judge::goes(HostIndex index) {
  auto& it = host(index);
  if (it.leaving && !it.removed) it.away_until = now_ + scenario_.spec.elastic.cooldown_max;
}

void Judge::check_dial(HostIndex index) {
  const auto& it = host(index);
  const auto name = [&](const char* what) { fail(fmt::format("host {} is dialled, {}", index.value, what)); };
  if (!scenario_.spec.elastic.enabled()) return;
  if (!it.listed) name("and is not listed");
  if (it.leaving) name("and leaves");
  if (now_ < it.not_before) name("and was tried a moment ago");
  if (now_ < it.away_until) name("and went by its own word a moment ago");
  const int good = good_slots(Link::ready) + good_slots(Link::dialling);
  if (now_ < it.rests_until && scenario_.least() <= good + good_slots(Link::none))
    name("and rests, while others hold the smallest world");
  const auto failed =
      std::count_if(hosts_.begin(), hosts_.end(), [](const auto& one) { return one.failures > 0; });
  const int wanted = most_wanted() + static_cast<int>(failed);
  if (good >= wanted) name("and those that are there are enough");
}

int Judge::most_wanted() const { return scenario_.most() + scenario_.spec.elastic.spares; }

// Whoever may serve is reached, as long as there are too few.
void Judge::check_reached(Phase phase) {
  const bool looks = phase == Phase::gathering || phase == Phase::running || phase == Phase::cooling;
  if (!scenario_.spec.elastic.enabled() || !looks || waits_.armed(Deadline::finish) || program_ends()) return;
  int held = 0;
  for (const auto& it : hosts_)
    if (it.link == Link::ready || it.link == Link::dialling) held += slots_of(scenario_.spec, it.host);
  if (slot_stopped_ || held >= most_wanted()) return;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    const auto& it = hosts_[i];
    if (it.good && it.listed && !it.removed && !it.leaving && it.link == Link::none && it.failures == 0 &&
        slots_of(scenario_.spec, it.host) > 0)
      fail(fmt::format("host {} would serve, and is not dialled", i));
  }
  const bool troubled = std::any_of(hosts_.begin(), hosts_.end(), [this](const auto& it) {
    return it.listed && !it.removed && !it.leaving && it.link == Link::none && now_ < it.not_before;
  });
  if (troubled && !waits_.armed(Deadline::hosts))
    fail("a host is to be tried again, and nothing wakes the job for it");
}

}  // namespace trainrun::sim
