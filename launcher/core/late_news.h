// Hosts whose news come late: what is due on a host when a deadline passes may have happened there, and not
// be known here. Silence is not looked at here: whoever is silent for --host-timeout is lost. Pure.
#pragma once

#include <algorithm>
#include <map>
#include <optional>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/core/job_event.h"

namespace trainrun::core {

class LateNews {
 public:
  // The time that is waited for news of a host, since what they are about was due; and from then on, or since
  // then, where the user has asked twice.
  static constexpr Duration longest = std::chrono::minutes(5), in_a_hurry = std::chrono::seconds(5);

  // Of the step that begins; kept as long as it lasts.
  void look_at(const JobEvent& event) {
    const auto* passed = std::get_if<DeadlinePassed>(&event);
    late_ = passed == nullptr ? nullptr : &passed->late;
  }
  [[nodiscard]] bool is_silent(HostIndex host) const {
    const auto* it = find(host);
    return it != nullptr && it->silent;
  }
  // By how much those of the host are late.
  [[nodiscard]] std::optional<Duration> of(HostIndex host, Instant now) const {
    const auto* it = find(host);
    return it == nullptr ? std::nullopt : std::optional<Duration>(now - it->until);
  }
  // Until when what was due at `due` is waited for, where the user asked for the second time at `hurried`.
  [[nodiscard]] static Instant limit(Instant due, std::optional<Instant> hurried) {
    return hurried ? std::min(due + longest, std::max(due, *hurried) + in_a_hurry) : due + longest;
  }
  // When to look again for what was due on the host at `due`; nothing: it is known now, or waited for no
  // more, as `limit` has passed.
  [[nodiscard]] std::optional<Instant> look_again(HostIndex host, Instant due, Instant limit,
                                                  Instant now) const {
    const auto* it = find(host);
    if (it == nullptr || it->silent || it->until >= due || now >= limit) return std::nullopt;
    return std::min(now + std::max<Duration>(due - it->until, shortest), limit);
  }
  // True once for each host in the drain that began then.
  bool is_to_be_told(HostIndex host, Instant drains_since) {
    const auto [it, first] = told_.try_emplace(host, drains_since);
    return std::exchange(it->second, drains_since) != drains_since || first;
  }

 private:
  static constexpr Duration shortest = milliseconds(250);

  [[nodiscard]] const LateHost* find(HostIndex host) const {
    if (late_ == nullptr) return nullptr;
    const auto it =
        std::find_if(late_->begin(), late_->end(), [host](const auto& one) { return one.host == host; });
    return it == late_->end() ? nullptr : &*it;
  }

  const std::vector<LateHost>* late_ = nullptr;
  std::map<HostIndex, Instant> told_;
};

}  // namespace trainrun::core
