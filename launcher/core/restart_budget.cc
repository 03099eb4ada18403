#include "launcher/core/restart_budget.h"

#include <algorithm>

#include "launcher/base/strings.h"

namespace trainrun::core {
namespace {

constexpr Duration first_backoff = seconds(1), longest_backoff = seconds(30);

constexpr Duration longest_window = std::chrono::hours(24 * 365);

}  // namespace

std::string describe_window(const RestartLimit& limit) {
  return limit.window > longest_window ? "in the whole job" : "in " + format_duration(limit.window);
}

std::string_view flag_of(const RestartLimit& limit) {
  return limit.window > longest_window ? "--max-restarts" : "--reset-limit";
}

Duration backoff_after(int failures) {
  if (failures < 1) return Duration::zero();
  auto time = first_backoff;
  for (int i = 1; i < failures && time < longest_backoff; ++i) time *= 2;
  return std::min(time, longest_backoff);
}

bool RestartBudget::spend(Instant now) {
  while (!taken_.empty() && now - taken_.front() > limit_.window) taken_.pop_front();
  if (!left(now)) return false;
  crashes_ = std::min(crashes_, spent()) + 1;
  taken_.push_back(now);
  return true;
}

int RestartBudget::used(Instant now) const {
  return static_cast<int>(
      std::count_if(taken_.begin(), taken_.end(), [&](Instant at) { return now - at <= limit_.window; }));
}

bool RestartBudget::left(Instant now) const { return used(now) < limit_.count; }

void RestartBudget::progressed() {
  if (crashes_ == 0 || forgiven_ == max_forgiven) return;
  crashes_ = 0;
  ++forgiven_;
}

Duration RestartBudget::backoff() const { return backoff_after(crashes_ - 1); }

}  // namespace trainrun::core
