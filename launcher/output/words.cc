#include "launcher/output/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "launcher/base/advice.h"
#include "launcher/base/strings.h"
#include "launcher/base/utf8.h"
#include "launcher/core/host_errors.h"
#include "launcher/core/outcome.h"
#include "launcher/core/ranks.h"
#include "launcher/core/restart_budget.h"
#include "launcher/output/names.h"

namespace trainrun::output {
namespace {

using namespace core;

const char* words_of(Follows follows) {
  switch (follows) {
    case Follows::tries_again:
      return "trying again";
    case Follows::all_start_anew:
      return "restarting all ranks";
    case Follows::all_go_on:
      return "all ranks go on in the next generation";
    case Follows::others_go_on:
      return "the others go on in the next generation";
    case Follows::others_wait:
      return "the others wait for another in its place";
  }
  return "";
}

// A number that is skipped must not look like a line that was lost.
std::string not_up(Generation generation) {
  return fmt::format("generation {} was not up yet: ", generation.value);
}

// "dialling gpu2; gpu3 cools down for 4.0 s; ", or nothing.
std::string what_is_awaited(const std::vector<AwaitedHost>& hosts) {
  std::vector<std::string> dialling, later;
  for (const auto& it : hosts) {
    const auto& host = it.host.name;
    switch (it.what) {
      case AwaitedHost::What::dialled:
        dialling.push_back(host);
        break;
      case AwaitedHost::What::left:
        later.push_back(fmt::format("{} left, and is asked again in {}", host, format_duration(it.in)));
        break;
      case AwaitedHost::What::rests:
        later.push_back(fmt::format("{} cools down for {}", host, format_duration(it.in)));
        break;
      case AwaitedHost::What::retried:
        later.push_back(fmt::format("{} is tried again in {}", host, format_duration(it.in)));
        break;
    }
  }
  std::string out;
  if (!dialling.empty()) out += "dialling " + list_names(dialling) + "; ";
  if (!later.empty()) out += list_names(later) + "; ";
  return out;
}

std::string in_whole_seconds(Duration duration) {
  return fmt::format("{}s", std::chrono::duration_cast<std::chrono::seconds>(duration).count());
}

std::string and_kept(int kept_for) {
  return fmt::format("; kept, since the others cannot hold --min-np {}", kept_for);
}

struct NoticeWords {
  using Lines = std::vector<std::string>;

  Lines operator()(const notice::PhaseChanged& it) const {
    return {fmt::format("job: {} -> {}", to_string(it.from), to_string(it.to))};
  }
  Lines operator()(const notice::Ignored& it) const {
    return {fmt::format("ignored: {} ({})", it.what, it.why)};
  }
  // `generation 3: 6 ranks on 3 hosts; state kept by 4 survivors; after 1.2 s`. What took time was a failure,
  // and the line of its restart has said which.
  Lines operator()(const notice::GenerationFormed& it) const {
    auto line = fmt::format("generation {}: {} on {}", it.generation.value, counted(it.ranks, "rank"),
                            counted(it.hosts, "host"));
    if (it.cause && !it.took) line += "; " + words(*it.cause);
    if (it.survivors > 0) line += fmt::format("; state kept by {}", counted(it.survivors, "survivor"));
    if (it.took) line += "; after " + format_duration(*it.took);
    return {line};
  }
  Lines operator()(const notice::Restarting& it) const {
    if (it.as_well)
      return {fmt::format("{}{} as well; {} (still restart {})", it.was_up ? "" : not_up(it.generation),
                          words(it.cause), words_of(it.follows), it.restart)};
    return {fmt::format("{}{}; {} (restart {} of {} {})", it.was_up ? "" : not_up(it.generation),
                        words(it.cause), words_of(it.follows), it.restart, it.limit,
                        describe_window({it.limit, it.window}))};
  }
  Lines operator()(const notice::NewcomersStart& it) const {
    const bool one = it.ranks.size() == 1;
    return {fmt::format("starting {}, which {} when {} ready", list_names(names(it.ranks)),
                        one ? "joins" : "join", one ? "it is" : "they are")};
  }
  Lines operator()(const notice::NewcomerFailed& it) const {
    const auto* late = std::get_if<cause::MembersMissing>(&it.cause);
    const std::string who = late != nullptr && late->late.size() > 1 ? "them" : "it";
    auto line = words(it.cause) + (late != nullptr ? "" : " before it had joined");
    if (it.ranks > 0)
      line += fmt::format("; {} without {}",
                          it.ranks == 1 ? "1 rank goes on" : fmt::format("{} ranks go on", it.ranks), who);
    if (it.again && it.ranks > 0 && !it.rests)
      line += "; starting " + who + " again" +
              (*it.again > Duration::zero() ? " in " + format_duration(*it.again) : "");
    return {line};
  }
  Lines operator()(const notice::NewcomersLeave& it) const {
    return {fmt::format("ending {}, which had not joined: {}", list_names(names(it.ranks)),
                        it.program_ends ? "other ranks have finished" : "no slot is left")};
  }
  // `rank 3 on node2 was killed by SIGKILL; rank 0 on node1 finished: waiting up to 30 s for 2 ranks to
  // finish or to join a new world`
  Lines operator()(const notice::Finishing& it) const {
    return {fmt::format(
        "{}{} finished: waiting up to {} for {} to finish or to join a new world (--start-timeout)",
        it.cause ? words(*it.cause) + "; " : "", name(it.finished), format_duration(it.wait),
        counted(it.left, "rank"))};
  }
  Lines operator()(const notice::GenerationSkipped& it) const {
    return {not_up(it.generation) + words(it.cause)};
  }
  Lines operator()(const notice::BackingOff& it) const {
    return {fmt::format("waiting {} before the next start{}", format_duration(it.wait),
                        it.others_go_on ? "; the others do not wait" : "")};
  }
  Lines operator()(const notice::StateLost&) const {
    return {"no rank survived: restarting all ranks from the program's own checkpoint"};
  }
  Lines operator()(const notice::Gathering& it) const {
    return {fmt::format("{} of {} {} available: waiting up to {} for more hosts ({})", it.slots,
                        counted(it.wanted, "slot"), it.wanted == 1 ? "is" : "are", format_duration(it.wait),
                        to_string(it.limit))};
  }
  Lines operator()(const notice::Connecting& it) const {
    return {fmt::format("waiting for hosts: {} (connecting, {}); giving up within {} ({})",
                        list_names(it.hosts), format_duration(it.waited), format_duration(it.wait),
                        to_string(it.limit))};
  }
  Lines operator()(const notice::WaitingForHosts& it) const {
    return {fmt::format(
        "waiting for hosts: {} of the {} that the smallest world needs; {}giving up in {} "
        "(--elastic-timeout)",
        counted(it.slots, "slot"), it.least, what_is_awaited(it.awaited), format_duration(it.wait))};
  }
  Lines operator()(const notice::HostLost& it) const {
    return {fmt::format("{} lost{} ({}){}", it.host.name, it.as_well ? " as well" : "", it.reason,
                        it.had_ranks || it.as_well ? ""
                        : it.newcomers.empty()
                            ? "; it had no rank"
                            : fmt::format("; {} had not joined yet", list_names(names(it.newcomers))))};
  }
  Lines operator()(const notice::HostLostAtEnd& it) const {
    return {
        fmt::format("{}: {} while clearing up; its agent ends what is left there", it.host.name, it.reason)};
  }
  Lines operator()(const notice::HostsFailed& it) const {
    HostErrors errors;
    for (std::uint32_t i = 0; i < it.failures.size(); ++i)
      errors.emplace_back(HostIndex{i}, it.failures[i].error);
    Lines lines;
    for (const auto& error : grouped(errors, [&](HostIndex i) { return it.failures[i.value].host.name; })) {
      auto line = error.message;
      if (it.again) line += "; trying again" + (error.hint.empty() ? "" : " (" + advice(error.hint) + ")");
      lines.push_back(std::move(line));
    }
    return lines;
  }
  Lines operator()(const notice::MoreHostsFail&) const {
    return {"more hosts fail in the same way; `trainrun ctl world` names them"};
  }
  Lines operator()(const notice::HostUnsuited& it) const {
    return {fmt::format("{}; no rank is started there any more (try: {})", it.error.message, it.error.hint)};
  }
  Lines operator()(const notice::HostRests& it) const {
    const auto why =
        it.again ? std::string("one of its ranks failed again")
                 : fmt::format("{} of its ranks failed within {}", it.failures, format_duration(it.window));
    return {fmt::format("{} cools down for {}: {}", it.host.name, format_duration(it.rest), why)};
  }
  Lines operator()(const notice::HostLeaves& it) const {
    return {fmt::format("{} leaves: {}", it.host.name, leaving(it.reason, it.by_user))};
  }
  Lines operator()(const notice::HostsFound& it) const {
    return {fmt::format("hosts found: {}", list_names(it.hosts))};
  }
  Lines operator()(const notice::HostsUnlisted& it) const {
    return {fmt::format("hosts no longer listed: {}{}", list_names(it.hosts),
                        it.kept_for    ? and_kept(*it.kept_for)
                        : it.hand_over ? "; kept until others hold the program's state"
                                       : "")};
  }
  Lines operator()(const notice::SlotsKept& it) const {
    return {list_names(resized(it.hosts)) + and_kept(it.kept_for)};
  }
  Lines operator()(const notice::MpiFound& it) const {
    const auto what =
        fmt::format("{} on {} {} a program of {}", quoted(it.what.program, 80), it.what.host.name,
                    it.what.guessed ? "looks like" : "is", name_of(it.what.family));
    switch (it.service) {
      case MpiService::none:
        return {fmt::format("{}: --compat offers its ranks nothing by which they could meet", what)};
      case MpiService::pmi:
        return {fmt::format("{}: its ranks meet by PMI-1", what)};
      case MpiService::pmix:
        return {fmt::format("{}: its ranks meet by PMIx, of {}", what, printable(it.library))};
    }
    return {};
  }
  Lines operator()(const notice::MpiMixed& it) const {
    const auto verb = [](const MpiPart& part) {
      return part.guessed ? "looks like a program of" : "is a program of";
    };
    return {fmt::format("{} {} {}, {} {} {}: ranks of both cannot meet in MPI", name(it.first, it.second),
                        verb(it.first), name_of(it.first.family), name(it.second, it.first), verb(it.second),
                        name_of(it.second.family))};
  }
  Lines operator()(const notice::FailureIgnored& it) const {
    if (it.left == 0) return {fmt::format("{}: no rank is left (--on-failure ignore)", words(it.cause))};
    return {fmt::format("{}: the job goes on, {} of {} {} left (--on-failure ignore)", words(it.cause),
                        it.left, counted(it.ranks, "rank"), it.left == 1 ? "is" : "are")};
  }
  Lines operator()(const notice::MpiCannotMeet& it) const {
    return {fmt::format("MPI ranks can no longer exchange data: {}", it.reason)};
  }
  Lines operator()(const notice::RanksSilent& it) const {
    return {fmt::format("no sign of life from any rank for {}: inspecting all ranks",
                        format_duration(it.silence))};
  }
  Lines operator()(const notice::RanksAbsent& it) const {
    constexpr std::size_t most = 4;
    std::vector<std::string> absent;
    for (const auto& [who, last_words, ended] : it.absent) {
      std::vector<std::string> more;
      if (ended) more.emplace_back("it has ended with code 0");
      if (!last_words.empty() && absent.size() < most)
        more.push_back(fmt::format("last words: {}", quoted(last_words, 80)));
      absent.push_back(more.empty() ? name(who) : fmt::format("{} ({})", name(who), fmt::join(more, "; ")));
    }
    const auto came = static_cast<std::size_t>(it.ranks) - it.absent.size();
    const bool some_ended =
        std::any_of(it.absent.begin(), it.absent.end(), [](const auto& one) { return one.ended; });
    // As long as all run they may be slow: a script that imports and reads for minutes is right.
    if (came == 0 && !some_ended)
      return {
          fmt::format("{} loaded PyTorch a while ago, and none has come to {} yet: they may still be loading "
                      "(a script that never calls it makes each a world of one; Accelerate and HF Trainer "
                      "want use_cpu=True where there is no GPU)",
                      counted(it.ranks, "rank"), it.waits_in)};
    if (came == 0)
      return {fmt::format(
          "{} have loaded PyTorch, and none has called {}: each may take "
          "itself for a world of one (try: Accelerate and HF Trainer want use_cpu=True where "
          "there is no GPU; Horovod's programs are seen with --compat horovod; other scripts call "
          "torch.distributed.init_process_group)",
          counted(it.ranks, "rank"), it.waits_in)};
    return {
        fmt::format("{} of {} wait in {}; not there yet: {}{}", came, counted(it.ranks, "rank"), it.waits_in,
                    list_names(absent, most),
                    it.ended_in ? "; whoever is missing is ended in " + format_duration(*it.ended_in) : "")};
  }
  Lines operator()(const notice::RanksAlive&) const {
    return {"a rank showed a sign of life meanwhile: the job goes on"};
  }
  Lines operator()(const notice::RankInspected& it) const {
    return {fmt::format("  {}: {}", name(it.who), it.evidence)};
  }
  Lines operator()(const notice::RankDiffers& it) const {
    const auto& odd = it.odd;
    std::vector<std::string> others;
    for (const auto rank : odd.others) others.push_back(std::to_string(rank.value));
    const auto silent = odd.silent ? "last output " + format_duration(*odd.silent) + " ago" : "no output";
    return {fmt::format(
        "rank {} is doing something different from the others: it {} ({}), and each of ranks {} {}",
        odd.rank.value, odd.does, silent, list_names(others), odd.others_do)};
  }
  Lines operator()(const notice::EndRequested& it) const {
    const auto who = who_asked(it.signal, it.by_ctl);
    switch (it.answer) {
      case EndAnswer::ends_ranks:
        return {fmt::format("{}: ending {}; SIGKILL in {} (again to kill them now)", who,
                            counted(it.ranks, "rank"), format_duration(it.grace))};
      case EndAnswer::ends_job:
        return {fmt::format("{}: ending the job (again to kill the ranks)", who)};
      case EndAnswer::ends_already:
        return {fmt::format("{}: the ranks are being ended already (again to kill them)", who)};
      case EndAnswer::kills:
        return {fmt::format("{} again: killing", who)};
      case EndAnswer::waits_for_output:
        return {fmt::format("{}: waiting {} for output to be read (again to leave now)", who,
                            format_duration(it.grace))};
    }
    return {};
  }
  Lines operator()(const notice::LeavingAtOnce&) const {
    return {"leaving at once; agents end what is left"};
  }
  Lines operator()(const notice::Ending& it) const {
    const auto kill = it.kill_in > Duration::zero() ? "SIGKILL in " + format_duration(it.kill_in)
                                                    : std::string("SIGKILL now");
    if (it.ranks == 0)
      return {fmt::format("{}; processes that are no ranks still run: {}", words(it.cause), kill)};
    return {fmt::format("{}; ending {}{}: {}", words(it.cause), counted(it.ranks, "rank"),
                        it.unplaced ? " that had not joined" : "", kill)};
  }
  Lines operator()(const notice::Killing& it) const {
    return {fmt::format(
        "{}{} did not end within {} of {}: SIGKILL{}", it.cause ? words(*it.cause) + "; " : "",
        counted(it.ranks, "rank"), format_duration(it.after), signal_name(it.signal),
        it.longer_grace ? fmt::format(" (try: --grace {})", in_whole_seconds(*it.longer_grace)) : "")};
  }
  Lines operator()(const notice::OutputUnread& it) const {
    const auto whose = fmt::format("the last output of {}", counted(it.ranks, "rank"));
    if (!it.given_up) return {"waiting until " + whose + " is read; a signal ends that"};
    return {whose + " was not read in time"};
  }
  Lines operator()(const notice::ProcessesStuck& it) const {
    if (it.silent)
      return {fmt::format("{}: no answer for {}; what ran there is not waited for", it.host.name,
                          format_duration(*it.silent))};
    return {
        fmt::format("{}: processes survived SIGKILL (stuck in the kernel, or another user's?); "
                    "giving up on them",
                    it.host.name)};
  }
  Lines operator()(const notice::NewsLate& it) const {
    const auto late = fmt::format("{}: its reports arrive {} late", it.host.name, format_duration(it.late));
    const auto longest = format_duration(it.longest);
    if (it.given_up) return {fmt::format("{}, after {}: giving it up", late, longest)};
    return {fmt::format("{}: waiting for them, {} at most (a third ^C leaves at once)", late, longest)};
  }
  Lines operator()(const notice::ClearUpUnconfirmed& it) const {
    return {fmt::format(
        "{}: the agent did not confirm that {}", it.host.name,
        it.given_up ? "the last generation is cleared up; giving it up" : "all is cleared up there")};
  }
  Lines operator()(const notice::Leftovers& it) const {
    Lines shown;
    for (const auto& program : it.names) shown.push_back(printable(std::string_view(program).substr(0, 16)));
    return {fmt::format("{} on {} ended and left {}{} behind, which {} ended{}",
                        it.ranks.size() == 1 ? fmt::format("rank {}", it.ranks.front().value) : "ranks",
                        it.host.name, counted(it.processes, "process"),
                        shown.empty() ? "" : fmt::format(" ({})", list_names(shown)),
                        it.processes == 1 ? "was" : "were", it.killed ? ", by SIGKILL" : "")};
  }
};

}  // namespace

std::vector<std::string> words(const Notice& notice) { return std::visit(NoticeWords{}, notice); }

}  // namespace trainrun::output
