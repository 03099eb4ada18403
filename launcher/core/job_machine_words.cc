// What the user is told of hosts.
#include "launcher/core/job_machine.h"

#include <fmt/format.h>

#include <utility>

#include "launcher/base/advice.h"
#include "launcher/base/strings.h"
#include "launcher/core/host_errors.h"

namespace trainrun::core {

// Why it waited in vain: the discovery, and each host that is not there.
void JobMachine::explain_missing_hosts() {
  if (spec_.elastic.discovery.kind != DiscoveryKind::none) {
    if (!discovery_problem_)
      verdict_.reason +=
          fmt::format("; the host discovery has run since the start, {} ago, without an answer",
                      format_duration(now_ - began_));
    else if (!discovery_problem_->empty())
      verdict_.reason += "; host discovery: " + *discovery_problem_;
    else if (order_.empty())
      verdict_.reason += "; the host discovery lists no host";
  }
  verdict_.host_errors.clear();
  for (const auto index : order_) {
    const auto& host = hosts_.at(index.value);
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
    if (!had_ranks || verdict_.kind == Outcome::Kind::user_signal) return;
    if (verdict_.kind == Outcome::Kind::host_lost) verdict_.also_lost.push_back(host);
    return say(fmt::format("{} lost as well ({})", host_name(host), reason));
  }
  const bool first = failed_at_ == std::nullopt || !hosts_of_restart_.contains(host);
  if (!first) {
    hosts_of_restart_.erase(host);
    count_cause({Outcome::Kind::host_lost, reason, "host lost", false, host});
  }
  say(fmt::format("{} lost{} ({}){}", host_name(host), first ? "" : " as well", reason,
                  had_ranks || !first ? "" : "; it had no rank"));
}

std::vector<JobMachine::HostView> JobMachine::hosts() const {
  std::vector<HostView> all;
  const auto pardoned = forgiven();
  for (std::uint32_t i = 0; i < hosts_.size(); ++i) {
    const auto& host = hosts_[i];
    HostView view{{i}, host.host, host.state, host.listed, host.leaving, 0, host.note, {}};
    if (const auto stopped = stopped_slots_.find({i}); stopped != stopped_slots_.end())
      view.stopped = stopped->second;
    const auto until = ledger_.rests_until({i}, now_);
    if (host.leaving) {
      view.note = "leaves";
    } else if (host.away_until > now_) {
      view.note = "left";
      view.used_again = host.away_until;
    } else if (until && !pardoned.contains({i}) && !has_live_members({i})) {
      view.note = host.note.empty() ? "rests" : "rests: " + host.note;
      view.used_again = until;
    }
    all.push_back(std::move(view));
  }
  return all;
}

std::string state_of(const JobMachine::HostView& host) {
  if (!host.listed) return "unlisted";
  return to_string(host.state);
}

// "dialling gpu2; gpu3 rests for 4.0 s; ", or nothing: then it is the list that must change.
std::string JobMachine::what_is_awaited() const {
  std::vector<std::string> dialling, later;
  const auto pardoned = forgiven();
  for (const auto index : order_) {
    const auto& host = hosts_.at(index.value);
    if (host.leaving) continue;
    if (host.away_until > now_)
      later.push_back(fmt::format("{} left, and is asked again in {}", host.host.name,
                                  format_duration(host.away_until - now_)));
    else if (host.state == HostState::dialling)
      dialling.push_back(host.host.name);
    else if (const auto until = ledger_.rests_until(index, now_); until && !pardoned.contains(index))
      later.push_back(fmt::format("{} rests for {}", host.host.name, format_duration(*until - now_)));
    else if (host.state == HostState::gone && host.retry_at > now_)
      later.push_back(
          fmt::format("{} is tried again in {}", host.host.name, format_duration(host.retry_at - now_)));
  }
  std::string out;
  if (!dialling.empty()) out += "dialling " + list_names(dialling) + "; ";
  if (!later.empty()) out += list_names(later) + "; ";
  return out;
}

// Once, however often it is tried: a host that goes on failing in the same way is no news. Nor are many hosts
// that fail in the same way, until the next world is formed.
void JobMachine::tell_host_error(HostIndex index, const Error& error) {
  constexpr int told_one_by_one = 3;
  auto& host = hosts_.at(index.value);
  if (std::exchange(host.note, error.message) == error.message || !host.listed) return;
  const int alike = ++errors_told_[std::string(without_name(error.message, host.host.name))];
  if (alike <= told_one_by_one) return say_error(error);
  if (alike == told_one_by_one + 1) say("more hosts fail in the same way; `trainrun ctl world` names them");
}

void JobMachine::say_error(const Error& error) {
  say(error.message + "; trying again" + (error.hint.empty() ? "" : " (" + advice(error.hint) + ")"));
}

// Those of the gathering are held back as long as all may end in one report of them.
void JobMachine::tell_host_errors() {
  HostErrors news;
  for (const auto& [index, error] : verdict_.host_errors) {
    auto& host = hosts_.at(index.value);
    if (std::exchange(host.note, error.message) != error.message && host.listed)
      news.emplace_back(index, error);
  }
  for (const auto& error : grouped(news, [this](HostIndex host) { return host_name(host); }))
    say_error(error);
}

}  // namespace trainrun::core
