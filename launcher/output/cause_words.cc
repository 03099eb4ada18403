// The words of causes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"
#include "launcher/core/outcome.h"
#include "launcher/core/ranks.h"
#include "launcher/output/names.h"
#include "launcher/output/words.h"

namespace trainrun::output {
namespace {

using namespace core;

constexpr std::size_t longest_words = 100;  // characters

// The last line often says why: "ValueError: loss is NaN".
std::string in_brackets(const std::string& words) {
  const auto safe = printable(words);
  if (safe.empty()) return {};
  if (safe.size() <= longest_words) return " (" + safe + ")";
  auto end = longest_words;
  while (end > 0 && (static_cast<unsigned char>(safe[end]) & 0xC0) == 0x80) --end;
  return " (" + safe.substr(0, end) + "...)";
}

struct CauseWords {
  std::string operator()(const cause::JobOver&) const { return "the job ended"; }
  std::string operator()(const cause::RankFailed& it) const {
    const bool says_itself = it.status.kind != ExitStatus::Kind::exited;
    return fmt::format("{} {}{}", name(it.who), it.status.describe(),
                       says_itself ? "" : in_brackets(it.last_words));
  }
  std::string operator()(const cause::SomeRankFailed&) const { return "a rank failed"; }
  std::string operator()(const cause::HostLost& it) const {
    return fmt::format("{} lost ({})", it.host.name, it.reason);
  }
  std::string operator()(const cause::LinkLost& it) const { return it.reason; }
  std::string operator()(const cause::RanksLost& it) const {
    return fmt::format("host {} was lost: {}", name_with_ranks(it.host.name, it.ranks),
                       std::visit(*this, it.why));
  }
  std::string operator()(const cause::PortRefused& it) const { return it.error.message; }
  std::string operator()(const cause::ExchangeLost& it) const { return it.reason; }
  std::string operator()(const cause::WorldBroken& it) const {
    return it.reason.value_or("all ranks gave up on this world");
  }
  std::string operator()(const cause::MembersMissing& it) const {
    return fmt::format("{} did not join generation {} within {} ({})",
                       it.late.empty() ? "a member that ended" : list_names(names(it.late)),
                       it.generation.value, format_duration(it.waited), to_string(it.limit));
  }
  std::string operator()(const cause::RankFinished& it) const {
    if (it.unfinished.empty()) return name(it.who) + " finished";
    return fmt::format("{} finished, {} did not{}", name(it.who), list_names(names(it.unfinished)),
                       it.least > 0 ? fmt::format(", and --min-np is {}", it.least) : "");
  }
  std::string operator()(const cause::Hung& it) const {
    auto out = fmt::format("no sign of life from any rank for {}", format_duration(it.silence));
    if (it.stopped.empty() && !it.absent.empty())
      return out + fmt::format(": {} {} not come to where the others wait", list_names(names(it.absent)),
                               it.absent.size() == 1 ? "has" : "have");
    if (it.stopped.empty() && !it.odd) return out;
    if (it.stopped.empty())
      return out + fmt::format(": {} {} while each of the {} others {}", name(it.odd->who), it.odd->does,
                               it.odd->others, it.odd->others_do);
    return out + fmt::format(": {} {} stopped", list_names(names(it.stopped)),
                             it.stopped.size() == 1 ? "is" : "are");
  }
  std::string operator()(const cause::TooFewHosts& it) const {
    auto out = fmt::format("too few hosts for the smallest world, for {} ({})", format_duration(it.waited),
                           to_string(it.limit));
    if (it.discovery_silent)
      out += fmt::format("; the host discovery has run since the start, {} ago, without an answer",
                         format_duration(*it.discovery_silent));
    if (it.discovery_problem) out += "; host discovery: " + *it.discovery_problem;
    if (it.discovery_lists_none) out += "; the host discovery lists no host";
    return out;
  }
  // "node1 and node2 left, node3 came, node4 has 2 slots now"
  std::string operator()(const cause::HostsChanged& it) const {
    std::vector<std::string> parts;
    if (!it.left.empty()) parts.push_back(list_names(it.left) + " left");
    if (!it.came.empty()) parts.push_back(list_names(it.came) + " came");
    for (auto& part : resized(it.resized)) parts.push_back(std::move(part));
    return parts.empty() ? "free slots are filled" : fmt::format("{}", fmt::join(parts, ", "));
  }
  std::string operator()(const cause::RanksReady& it) const {
    if (it.ranks.empty()) return "a rank that was ready has ended";
    return fmt::format("{} {} ready", list_names(names(it.ranks)), it.ranks.size() == 1 ? "is" : "are");
  }
  std::string operator()(const cause::HostLeaves& it) const {
    return fmt::format("{} leaves ({})", it.host.name, leaving(it.reason, it.by_user));
  }
  std::string operator()(const cause::ItsHostsLeave&) const { return "its hosts leave"; }
  std::string operator()(const cause::RestartAsked& it) const {
    if (!it.rank) return "the user asked for a restart";
    return fmt::format("the user asked for a restart of rank {}", it.rank->value);
  }
  std::string operator()(const cause::StopAsked& it) const {
    return fmt::format("the user stopped rank {}", it.rank.value);
  }
  std::string operator()(const cause::EndAsked& it) const { return who_asked(it.signal, it.by_ctl); }
  std::string operator()(const cause::MpiMixed& it) const {
    return fmt::format("{} is a program of {}, {} is one of {}: they cannot be one world",
                       name(it.first, it.second), name_of(it.first.family), name(it.second, it.first),
                       name_of(it.second.family));
  }
  std::string operator()(const cause::OutputClosed&) const { return "nobody reads the output any more"; }
  std::string operator()(const cause::TimeLimit& it) const {
    return fmt::format("--timeout {} has expired", format_duration(it.limit));
  }
};

// Members read of the launcher, not beside its lines.
struct MemberWords : CauseWords {
  using CauseWords::operator();
  std::string operator()(const cause::RankFailed& it) const { return it.status.describe(); }
  std::string operator()(const cause::PortRefused&) const { return "the job ended"; }
  std::string operator()(const cause::EndAsked& it) const {
    return "the launcher was asked to end the job by " + who_asked(it.signal, it.by_ctl);
  }
  std::string operator()(const cause::OutputClosed&) const {
    return "nobody reads the job's output any more";
  }
  std::string operator()(const cause::TimeLimit&) const { return "the job's time limit passed"; }
};

}  // namespace

std::string words(const Cause& cause) { return std::visit(CauseWords{}, cause); }

std::string hint(const Cause& cause) {
  if (const auto* refused = std::get_if<cause::PortRefused>(&cause)) return refused->error.hint;
  if (std::holds_alternative<cause::MpiMixed>(cause))
    return "build both with one MPI, or start them as two jobs";
  if (std::holds_alternative<cause::MembersMissing>(cause))
    return "give --start-timeout more: survivors have that time to join a generation; a new rank, and one "
           "that "
           "others wait for, ten times as long, or with --hang-timeout as long as that allows";
  if (std::holds_alternative<cause::RankFinished>(cause))
    return "see that all ranks leave their training loop after the same step; --min-np allows the others to "
           "go "
           "on without those that finished";
  return {};
}

std::string reason_for_members(const EndGeneration& end) {
  return end.job_ends ? std::visit(MemberWords{}, end.cause) : words(end.cause);
}

}  // namespace trainrun::output
