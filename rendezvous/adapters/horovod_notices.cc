#include "rendezvous/adapters/horovod_notices.h"

#include <algorithm>
#include <utility>

namespace trainrun::rendezvous {
namespace {

constexpr std::uint32_t loopback = 0x7f000001;

}  // namespace

void HorovodNotices::registered(WorkerId worker, HorovodService service, Instant now) {
  services_[worker] = std::move(service);
  if (worker == coordinator_ && notice_ && notice_->attempt == 0 && !notice_->next) try_next(now);
}

void HorovodNotices::begin(const std::vector<WorkerId>& world) {
  end_attempt();
  notice_.reset();
  interrupted_ = false;
  coordinator_ = world.empty() ? WorkerId{} : world.front();
  std::erase_if(services_, [&](const auto& it) {
    return std::find(world.begin(), world.end(), it.first) == world.end();
  });
}

void HorovodNotices::announce(bool hosts_leave, std::int64_t clock, Instant now) {
  if (coordinator_ == WorkerId{} || interrupted_) return;
  auto change = hosts_leave ? HorovodChange::mixed : HorovodChange::added;
  if (notice_) change = std::max(change, notice_->change);
  end_attempt();
  last_stamp_ = std::max(last_stamp_ + 1, clock);
  notice_ = Notice{.stamp = last_stamp_, .change = change};
  try_next(now);
}

void HorovodNotices::interrupted() {
  interrupted_ = true;
  end_attempt();
  notice_.reset();
}

// The service listens on all interfaces, unless a program has made one of its own.
std::vector<HorovodEndpoint> HorovodNotices::ways(const HorovodService& service) const {
  std::vector<HorovodEndpoint> all;
  const auto add = [&all](HorovodEndpoint endpoint) {
    if (std::find(all.begin(), all.end(), endpoint) == all.end()) all.push_back(endpoint);
  };
  for (const auto& endpoint : service.endpoints) add({loopback, endpoint.port});
  for (const auto& endpoint : service.endpoints) add(endpoint);
  return all;
}

void HorovodNotices::try_next(Instant now) {
  auto& notice = *notice_;
  notice.next.reset();
  const auto service = services_.find(coordinator_);
  if (service == services_.end() || service->second.endpoints.empty()) return;
  const auto all = ways(service->second);
  if (notice.address >= all.size()) notice.address = 0;
  notice.attempt = ++last_attempt_;
  notice.reply.clear();
  notice.next = now + reply_limit;
  callbacks_.deliver(notice.attempt, coordinator_, all[notice.address],
                     hosts_updated(service->second.key, notice.stamp, notice.change));
}

void HorovodNotices::end_attempt() {
  if (notice_ && notice_->attempt != 0) callbacks_.drop(std::exchange(notice_->attempt, 0));
}

void HorovodNotices::attempt_failed(const std::string& why, Instant now) {
  auto& notice = *notice_;
  end_attempt();
  const auto service = services_.find(coordinator_);
  if (++notice.address < ways(service->second).size()) return try_next(now);
  notice.address = 0;
  notice.pause = std::clamp(notice.pause * 2, first_pause, longest_pause);
  notice.next = now + notice.pause;
  if (!std::exchange(notice.told_failure, true)) callbacks_.failed(coordinator_, why);
}

void HorovodNotices::received(std::uint32_t attempt, std::string_view bytes, bool end, Instant now) {
  if (!notice_ || attempt == 0 || notice_->attempt != attempt) return;
  auto& notice = *notice_;
  notice.reply += bytes.substr(0, longest_horovod_reply + 1);
  switch (read_horovod_reply(services_.at(coordinator_).key, notice.reply)) {
    case HorovodReply::incomplete:
      if (end) attempt_failed("it closed the connection without an answer", now);
      return;
    case HorovodReply::wrong:
      return attempt_failed("what listens there is not its notification service", now);
    case HorovodReply::acknowledged:
      break;
  }
  end_attempt();
  constexpr int most_doublings = 4;
  notice.next =
      now + std::min(longest_pause, first_repeat * (1 << std::min(notice.acknowledged++, most_doublings)));
}

void HorovodNotices::refused(std::uint32_t attempt, const std::string& why, Instant now) {
  if (notice_ && attempt != 0 && notice_->attempt == attempt) attempt_failed(why, now);
}

std::optional<Instant> HorovodNotices::next_deadline() const {
  return notice_ ? notice_->next : std::nullopt;
}

void HorovodNotices::advance(Instant now) {
  if (!notice_ || !notice_->next || *notice_->next > now) return;
  if (notice_->attempt != 0) return attempt_failed("no answer", now);
  try_next(now);
}

}  // namespace trainrun::rendezvous
