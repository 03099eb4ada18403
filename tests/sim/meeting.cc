#include "tests/sim/meeting.h"

#include <unordered_set>
#include <variant>

#include "launcher/core/job_event.h"

namespace trainrun::sim {
namespace {

constexpr std::uint32_t for_ever = 24u * 3600 * 1000;

std::uint32_t in_ms(Duration wait) {
  return static_cast<std::uint32_t>(std::chrono::duration_cast<milliseconds>(wait).count());
}

template <class... Parts>
struct Cases : Parts... {
  using Parts::operator()...;
};

}  // namespace

void Meeting::begin(const core::BeginWorld& order) {
  rendezvous::World world{order.placement.generation.value, 0, "job", {}};
  for (const auto& seat : order.placement.seats) {
    rendezvous::Member member;
    member.host = "h" + std::to_string(seat.host.value);
    member.worker = order.workers[seat.rank.value].value;
    world.members.push_back(std::move(member));
  }
  carry(table_.begin(std::move(world), timeline_.now()));
}

void Meeting::end(const core::EndGeneration& order) {
  carry(order.culprit ? table_.lost(order.generation, *order.culprit, "h", "why")
                      : table_.end(order.generation, "why"));
}

void Meeting::announce(const core::Announce& order) {
  const auto change = order.hosts_leave ? rendezvous::Change::leaving : rendezvous::Change::added;
  std::unordered_set<std::uint32_t> stopping;
  for (const auto worker : order.leaving) stopping.insert(worker.value);
  carry(table_.announce(order.generation, change, std::move(stopping), "news"));
}

void Meeting::dismiss(WorkerId worker) { carry(table_.dismiss(worker)); }

void Meeting::join(WorkerId worker, Generation generation, Rank rank, bool elastic, Duration wait) {
  rank_of_[worker] = rank;
  rendezvous::Join join;
  join.rank = rank.value;
  join.host = "h";
  join.wait_ms = in_ms(wait);
  join.elastic = elastic;
  join.worker = worker.value;
  ask({worker, generation, Line::work}, std::move(join));
}

void Meeting::next(WorkerId worker, Generation after, Duration wait) {
  ask({worker, after, Line::work}, rendezvous::Next{worker.value, in_ms(wait)});
}

void Meeting::leave(WorkerId worker, Generation generation) {
  ask({worker, generation, Line::work}, rendezvous::Leave{});
}

void Meeting::closed(WorkerId worker) {
  for (const auto line : {Line::work, Line::watch, Line::news})
    carry(table_.closed(connection(worker, line), timeline_.now()));
}

void Meeting::ask(const Asked& asked, decltype(rendezvous::Request::body) body) {
  asked_[++last_request_] = asked;
  carry(table_.apply(connection(asked.worker, asked.line),
                     rendezvous::Request{last_request_, asked.generation.value, std::move(body)},
                     timeline_.now()));
}

void Meeting::carry(const rendezvous::Outbox& outbox) {
  for (const auto& event : table_.take_events()) {
    std::visit(Cases{[this](const rendezvous::MemberJoined& it) {
                       hands_.event(core::MemberJoined{it.generation, it.rank});
                     },
                     [this](const rendezvous::Formed& it) {
                       hands_.event(core::WorldJoined{it.generation, it.elastic, it.elastic && horovod_});
                     },
                     [this](const rendezvous::Broken& it) {
                       core::WorldBroken broken{it.generation, rendezvous::describe(it.verdict), {}};
                       for (const auto rank : rendezvous::at_fault(it.verdict))
                         broken.culprits.push_back(Rank{rank});
                       hands_.event(std::move(broken));
                     },
                     [this](const rendezvous::MemberWaits& it) {
                       hands_.event(core::MemberWaits{it.generation, it.worker});
                     },
                     [](const rendezvous::MemberPulse&) {}},
               event);
  }
  for (const auto& item : outbox) {
    const auto asked = asked_.find(item.request);
    if (asked == asked_.end()) continue;
    const auto by = asked->second;
    asked_.erase(asked);
    answer(by, *item.body);
  }
  watch_deadline();
}

void Meeting::answer(const Asked& asked, const rendezvous::ReplyBody& body) {
  const auto over = [&] { hands_.tell(asked.worker, {Word::Kind::over, asked.generation, {}, false}); };
  std::visit(Cases{[&](const rendezvous::Joined&) {
                     hands_.tell(asked.worker, {Word::Kind::formed, asked.generation, {}, false});
                     ask({asked.worker, asked.generation, Line::watch}, rendezvous::Watch{for_ever});
                     ask({asked.worker, asked.generation, Line::news},
                         rendezvous::News{rank_of_[asked.worker].value, 0, for_ever});
                   },
                   [&](const rendezvous::Over&) { over(); },
                   [&](const rendezvous::Placed& it) {
                     hands_.tell(asked.worker, {Word::Kind::placed, {it.generation}, {it.rank}, false});
                   },
                   [&](const rendezvous::Notice& it) {
                     hands_.tell(asked.worker, {Word::Kind::notice, asked.generation, {}, it.stop});
                     ask({asked.worker, asked.generation, Line::news},
                         rendezvous::News{rank_of_[asked.worker].value, it.number, for_ever});
                   },
                   [&](const rendezvous::Failure& it) {
                     if (it.kind == rendezvous::FailureKind::removed)
                       return hands_.tell(asked.worker, {Word::Kind::removed, asked.generation, {}, false});
                     // A watch that comes too late says the same as one that waited.
                     if (asked.line != Line::news) over();
                   },
                   [](const auto&) {}},
             body);
}

void Meeting::watch_deadline() {
  const auto at = table_.next_deadline();
  if (!at || (next_look_ && *next_look_ <= *at && *next_look_ > timeline_.now())) return;
  next_look_ = at;
  timeline_.at(*at, [this, at] {
    if (next_look_ == at) next_look_.reset();
    carry(table_.advance(timeline_.now()));
  });
}

}  // namespace trainrun::sim
