// What the user is told of hosts.
#include "launcher/core/job_machine.h"

#include <utility>

#include "launcher/core/host_errors.h"

namespace trainrun::core {

// Why it waited in vain: the discovery, and each host that is not there.
void JobMachine::explain_missing_hosts(cause::TooFewHosts& cause) {
  if (spec_.elastic.discovery.kind != DiscoveryKind::none) {
    if (!discovery_problem_)
      cause.discovery_silent = now_ - began_;
    else if (!discovery_problem_->empty())
      cause.discovery_problem = *discovery_problem_;
    else
      cause.discovery_lists_none = roster_.counts().listed == 0;
  }
  verdict_.host_errors.clear();
  for (const auto index : roster_.order()) {
    const auto& host = roster_.at(index);
    if ((host.state == HostState::ready && !host.refused) || host.note.empty()) continue;
    const bool named = host.note.starts_with(host.host.name + ":");
    verdict_.host_errors.emplace_back(
        index, Error{Code::unreachable, named ? host.note : host.host.name + ": " + host.note, {}});
  }
}

// Another host was lost while what the first failure led to goes on: nothing new follows, but its name is
// told.
void JobMachine::tell_lost_host(HostIndex host, const std::string& reason, bool had_ranks) {
  if (then_ == Then::end && phase_ == Phase::draining) {
    if (!had_ranks) return;
    const bool as_well = verdict_.kind == Outcome::Kind::host_lost;
    if (as_well) verdict_.also_lost.push_back(host);
    return tell(notice::HostLost{named(host), reason, as_well, true});
  }
  const bool first = !restarts_.take(host);
  if (!first) {
    count_cause({Outcome::Kind::host_lost, cause::LinkLost{reason}, CauseKind::host_lost, false, host});
  }
  tell(notice::HostLost{named(host), reason, !first, had_ranks});
}

std::vector<JobMachine::HostView> JobMachine::hosts() const {
  std::vector<HostView> all;
  const auto pardoned = forgiven();
  for (std::uint32_t i = 0; i < roster_.size(); ++i) {
    const auto& host = roster_.at({i});
    const std::string note(without_name(host.note, host.host.name));
    HostView view{{i},          host.host,          host.state, host.listed, host.kept,
                  host.leaving, host.stopped_slots, note,       {}};
    const auto until = roster_.ledger().rests_until({i}, now_);
    if (host.leaving) {
      view.note = "leaves";
    } else if (host.away_until > now_) {
      view.note = "left";
      view.used_again = host.away_until;
    } else if (until && !pardoned.contains({i}) && !has_live_members({i})) {
      view.note = note.empty() ? "rests" : "rests: " + note;
      view.used_again = until;
    } else if (host.state == HostState::gone && host.retry_at > now_) {
      view.used_again = host.retry_at;
    }
    all.push_back(std::move(view));
  }
  return all;
}

std::string state_of(const JobMachine::HostView& host) {
  if (!host.listed) return "unlisted";
  return to_string(host.state);
}

// None: then it is the list that must change.
std::vector<AwaitedHost> JobMachine::awaited_hosts() const {
  using What = AwaitedHost::What;
  std::vector<AwaitedHost> all;
  const auto pardoned = forgiven();
  for (const auto index : roster_.order()) {
    const auto& host = roster_.at(index);
    if (host.leaving) continue;
    if (host.away_until > now_)
      all.push_back({named(index), What::left, host.away_until - now_});
    else if (host.state == HostState::dialling)
      all.push_back({named(index), What::dialled});
    else if (const auto until = roster_.ledger().rests_until(index, now_); until && !pardoned.contains(index))
      all.push_back({named(index), What::rests, *until - now_});
    else if (host.state == HostState::gone && host.retry_at > now_)
      all.push_back({named(index), What::retried, host.retry_at - now_});
  }
  return all;
}

// Elastic jobs tell what they wait for in other words.
void JobMachine::tell_connecting() {
  notice::Connecting it{{}, now_ - began_, began_ + gathering_timeout() - now_};
  for (const auto index : roster_.order())
    if (roster_.at(index).state == HostState::dialling) it.hosts.push_back(host_name(index));
  if (!it.hosts.empty()) tell(std::move(it));
}

bool JobMachine::is_news(HostIndex index, const Error& error) {
  if (roster_.at(index).note == error.message) return false;
  roster_.change(index, [&error](HostEntry& it) { it.note = error.message; });
  return roster_.at(index).listed;
}

// Once, however often it is tried: a host that goes on failing in the same way is no news. Nor are many hosts
// that fail in the same way, until the next world is formed.
void JobMachine::tell_host_error(HostIndex index, const Error& error) {
  constexpr int told_one_by_one = 3;
  const auto& host = roster_.at(index);
  if (!is_news(index, error)) return;
  const int alike = ++errors_told_[std::string(without_name(error.message, host.host.name))];
  if (alike <= told_one_by_one) return tell(notice::HostsFailed{{{named(index), error}}});
  if (alike == told_one_by_one + 1) tell(notice::MoreHostsFail{});
}

// Those of the gathering are held back as long as all may end in one report of them.
void JobMachine::tell_host_errors() {
  std::vector<HostFailure> news;
  for (const auto& [index, error] : verdict_.host_errors) {
    if (is_news(index, error)) news.push_back({named(index), error});
  }
  if (!news.empty()) tell(notice::HostsFailed{std::move(news)});
}

}  // namespace trainrun::core
