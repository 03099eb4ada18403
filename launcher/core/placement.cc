#include "launcher/core/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>

namespace trainrun::core {
namespace {

using Counts = std::vector<std::uint64_t>;  // ranks a host

constexpr std::uint64_t max_ranks = 1 << 20;
constexpr std::size_t max_hosts_in_hint = 8;

std::uint64_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::string s(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void spread_evenly(std::uint64_t extra, Counts& counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] += extra / counts.size() + (i < extra % counts.size() ? 1 : 0);
  }
}

// `-H a:5,b:4` for those counts; nothing for a list that nobody would retype.
std::string host_list(const std::vector<Host>& hosts, const Counts& counts) {
  if (hosts.size() > max_hosts_in_hint) return {};
  std::string out = "-H ";
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto& host = hosts[i];
    if (i > 0) out += ',';
    if (!host.user.empty()) out += host.user + "@";
    out += host.name.find(':') == std::string::npos ? host.name : fmt::format("[{}]", host.name);
    out += fmt::format(":{}", counts[i]);
  }
  return out;
}

// The same for a file of hosts: only the counts that have to change.
std::string lines_of_file(const JobSpec& job, const Counts& counts) {
  const auto& hosts = job.hosts.hosts;
  if (hosts.size() > max_hosts_in_hint) return fmt::format("give the hosts of {} more slots", job.slots_from);
  std::string out;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (counts[i] == static_cast<std::uint64_t>(hosts[i].slots)) continue;
    out += fmt::format("{} slots={} for {}", out.empty() ? "write" : ",", counts[i], hosts[i].name);
  }
  return fmt::format("{} in {}", out, job.slots_from);
}

std::string what_needs(const JobSpec& job, std::uint64_t wanted) {
  if (job.programs.size() == 1) return fmt::format("-np {} needs", wanted);
  return fmt::format("the {} programs need", job.programs.size());
}

// ": a 4, b 4"; nothing where one host says it all, or there are too many to read.
std::string each_of(const std::vector<Host>& hosts) {
  if (hosts.size() < 2 || hosts.size() > max_hosts_in_hint) return {};
  std::string out;
  for (const auto& host : hosts)
    out += fmt::format("{} {} {}", out.empty() ? ":" : ",", host.name, host.slots);
  return out;
}

tl::unexpected<Error> too_few_slots(const JobSpec& job, std::uint64_t wanted, const Counts& room) {
  const auto& hosts = job.hosts.hosts;
  auto message =
      fmt::format("{} {}, {} {}{}", what_needs(job, wanted), s(wanted, "slot"),
                  hosts.size() == 1 ? "the host has" : "the hosts have", sum(room), each_of(hosts));
  const auto bare =
      std::find_if(hosts.begin(), hosts.end(), [](const Host& host) { return !host.slots_given; });
  if (bare != hosts.end()) {
    message += fmt::format(" (no count was given for {}: it has {})", bare->name, bare->slots);
  }
  auto counts = room;
  spread_evenly(wanted - sum(room), counts);
  const auto list = host_list(hosts, counts);
  const auto way = !job.slots_from.empty() ? lines_of_file(job, counts)
                   : list.empty()          ? "give the hosts more slots (name:slots)"
                                           : "write " + list;
  return fail(Code::usage, std::move(message), way + ", or add --oversubscribe");
}

Result<Counts> count_ranks(const JobSpec& job, std::uint64_t wanted) {
  const auto& hosts = job.hosts.hosts;
  Counts room;
  for (const auto& host : hosts) {
    room.push_back(static_cast<std::uint64_t>(std::max(job.ppr > 0 ? job.ppr : host.slots, 0)));
  }
  if (wanted == 0) wanted = sum(room);
  if (wanted == 0) return fail(Code::usage, "the hosts have no slot", "write -H name:slots");
  if (wanted > max_ranks) return fail(Code::usage, fmt::format("more than {} ranks", max_ranks));

  Counts counts(hosts.size(), 0);
  if (wanted > sum(room)) {
    if (job.ppr > 0) {
      return fail(Code::usage,
                  fmt::format("{} {}, and {} a host on {} make {}", what_needs(job, wanted),
                              s(wanted, "rank"), job.ppr, s(hosts.size(), "host"), sum(room)),
                  "allow more ranks a host, or name more hosts");
    }
    if (!job.oversubscribe) return too_few_slots(job, wanted, room);
    counts = room;
    spread_evenly(wanted - sum(room), counts);
    return counts;
  }
  for (auto left = wanted; left > 0;) {
    for (std::size_t i = 0; i < counts.size() && left > 0; ++i) {
      const auto take =
          std::min(left, job.map_by == MapBy::host ? std::min<std::uint64_t>(1, room[i] - counts[i])
                                                   : room[i] - counts[i]);
      counts[i] += take;
      left -= take;
    }
  }
  return counts;
}

// With a limit of N ranks a host, hosts were filled up to that, whatever slots were written for them.
Result<void> check_slots(const JobSpec& job, const Counts& counts) {
  if (job.oversubscribe) return {};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto& host = job.hosts.hosts[i];
    if (!host.slots_given || counts[i] <= static_cast<std::uint64_t>(host.slots)) continue;
    return fail(Code::usage,
                fmt::format("{} on {}, which has {}", s(counts[i], "rank"), host.name,
                            s(static_cast<std::uint64_t>(host.slots), "slot")),
                fmt::format("write {}:{}, or add --oversubscribe", host.name, counts[i]));
  }
  return {};
}

// The places of each program stay, and which of its ranks has which is said by --rank-by.
void number_by(RankBy by, std::vector<Seat>& seats) {
  for (auto next = seats.begin(); next != seats.end();) {
    const auto end = std::find_if(
        next, seats.end(), [program = next->program](const Seat& it) { return it.program != program; });
    std::map<HostIndex, int> left;
    for (auto seat = next; seat != end; ++seat) ++left[seat->host];
    while (next != end) {
      for (auto& [host, count] : left) {
        const int taken = by == RankBy::host ? std::min(count, 1) : count;
        for (int i = 0; i < taken; ++i) (next++)->host = host;
        count -= taken;
      }
    }
  }
}

// The parts of an MPMD job take ranks in their order.
Placement with_programs(const JobSpec& job, Placement placement) {
  std::size_t seat = 0;
  for (std::size_t part = 0; part < job.programs.size() && job.world_size() > 0; ++part) {
    for (int i = 0; i < job.programs[part].np; ++i) placement.seats[seat++].program = part;
  }
  if (job.rank_by != RankBy::mapping) number_by(job.rank_by, placement.seats);
  placement.groups = number_seats(placement.seats);
  return placement;
}

// --rankfile: each rank where its line says, whatever slots its host has.
Result<Placement> place_by_file(const JobSpec& job, std::uint64_t wanted, Generation generation) {
  if (wanted == 0) wanted = job.rank_file.size();
  if (wanted > job.rank_file.size())
    return fail(Code::usage,
                fmt::format("{} {}, and the rank file has lines for {}", what_needs(job, wanted),
                            s(wanted, "rank"), job.rank_file.size()),
                fmt::format("add a line for rank {}, or lower -np", job.rank_file.size()));
  Placement placement{generation, {}, 0};
  for (std::uint32_t rank = 0; rank < wanted; ++rank)
    placement.seats.push_back(Seat{.rank = {rank}, .host = {job.rank_file[rank].host}});
  return with_programs(job, std::move(placement));
}

}  // namespace

Result<Placement> place(const JobSpec& job, Generation generation) {
  if (job.hosts.hosts.empty()) return fail(Code::usage, "there is no host to run on", "write -H name:slots");
  if (job.programs.empty()) return fail(Code::usage, "there is no program to run");
  std::uint64_t wanted = 0;
  for (const auto& program : job.programs) {
    if (program.np < 0 || (program.np == 0 && job.programs.size() > 1)) {
      return fail(Code::usage, "with several programs each needs its own count",
                  "write -np N after each ':', as in -np 1 ./server : -np 7 ./client");
    }
    wanted += static_cast<std::uint64_t>(program.np);
  }
  if (!job.rank_file.empty()) return place_by_file(job, wanted, generation);
  const auto counts = count_ranks(job, wanted);
  if (!counts) return tl::unexpected(counts.error());
  if (auto checked = check_slots(job, *counts); !checked) return tl::unexpected(checked.error());

  Placement placement{generation, {}, 0};
  const auto seat_on = [&](std::size_t host) {
    placement.seats.push_back(Seat{.rank = {static_cast<std::uint32_t>(placement.seats.size())},
                                   .host = {static_cast<std::uint32_t>(host)}});
  };
  if (job.map_by == MapBy::host) {
    const auto rounds = *std::max_element(counts->begin(), counts->end());
    for (std::uint64_t round = 0; round < rounds; ++round) {
      for (std::size_t host = 0; host < counts->size(); ++host) {
        if ((*counts)[host] > round) seat_on(host);
      }
    }
  } else {
    for (std::size_t host = 0; host < counts->size(); ++host) {
      for (std::uint64_t i = 0; i < (*counts)[host]; ++i) seat_on(host);
    }
  }
  return with_programs(job, std::move(placement));
}

}  // namespace trainrun::core
