#include "cli/part_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "cli/value.h"
#include "host-discovery/host_list.h"
#include "host-discovery/merge.h"
#include "launcher/base/strings.h"
#include "launcher/core/placement.h"

namespace trainrun::cli {
namespace {

std::vector<Setting> own_hosts(const ArgvPart& part) {
  std::vector<Setting> out;
  std::copy_if(part.settings.begin(), part.settings.end(), std::back_inserter(out),
               [](const Setting& setting) { return setting.option == Option::host; });
  return out;
}

// A flag or a variable names other hosts than the file that has the programs.
bool overrules(const Setting& common, const Setting& own) {
  const auto from_file = [](const Setting& setting) {
    return !setting.origin.starts_with('-') && !setting.origin.starts_with("TRAINRUN_");
  };
  return from_file(own) && !from_file(common);
}

// A host of the job, and how many of its slots a program may take.
struct Room {
  std::uint32_t host = 0;
  int slots = 0;
};

class Seating {
 public:
  explicit Seating(JobSpec& job) : job_(job) {
    for (const auto& host : job.hosts.hosts) left_.push_back(host.slots);
  }

  [[nodiscard]] int left(std::uint32_t host) const { return left_[host]; }

  Result<void> seat(const Program& program, const std::vector<Room>& rooms) {
    JobSpec own = job_;  // what it would be if this program were all of it
    own.programs = {program};
    own.hosts.hosts.clear();
    own.rank_file.clear();
    for (const auto& room : rooms) {
      own.hosts.hosts.push_back(job_.hosts.hosts[room.host]);
      own.hosts.hosts.back().slots = room.slots;
    }
    const auto placed = core::place(own, Generation{1});
    if (!placed) return tl::unexpected(placed.error());
    for (const auto& seat : placed->seats) {
      const auto host = rooms[seat.host.value].host;
      job_.rank_file.push_back({host, {}});
      left_[host] = std::max(left_[host] - 1, 0);
    }
    return {};
  }

 private:
  JobSpec& job_;
  std::vector<int> left_;  // slots that no rank has yet, by host
};

// The hosts of `words`, -H of one program.
Result<std::vector<Room>> rooms_of(const std::vector<Setting>& words, const Settings& settings,
                                   const Inputs& inputs, const JobSpec& job, const Seating& seating) {
  std::vector<Host> mentions;
  for (const auto& setting : words) {
    const auto read = hosts::parse_host_list(setting.value, setting.origin);
    if (!read) return tl::unexpected(read.error());
    mentions.insert(mentions.end(), read->begin(), read->end());
  }
  const int slots = settings.number(Option::slots_per_host, settings.number(Option::ppn, 1));
  const auto wanted = hosts::merge_hosts(std::move(mentions), slots, inputs.is_this_machine);
  if (!wanted) return tl::unexpected(wanted.error());
  // Where a file or a batch system counts the slots, a mention without a count means all of them.
  const bool all = settings.has(Option::hostfile) || settings.has(Option::hosts_from);
  std::vector<Room> rooms;
  for (const auto& want : *wanted) {
    const auto& hosts = job.hosts.hosts;
    const auto found = std::find_if(hosts.begin(), hosts.end(), [&](const Host& host) {
      return hosts::mean_one_host(host, want, inputs.is_this_machine);
    });
    if (found == hosts.end()) continue;  // --nolocal has left it out
    const auto index = static_cast<std::uint32_t>(found - hosts.begin());
    const int its = all && !want.slots_given ? found->slots : want.slots;
    rooms.push_back({index, std::min(its, seating.left(index))});
  }
  return rooms;
}

}  // namespace

Result<void> seat_on_own_hosts(const Settings& settings, const std::vector<ArgvPart>& parts,
                               const Inputs& inputs, JobSpec& job) {
  std::vector<std::vector<Setting>> own;
  for (const auto& part : parts) own.push_back(own_hosts(part));
  const auto named = [](const std::vector<Setting>& words) { return !words.empty(); };
  const auto first = std::find_if(own.begin(), own.end(), named);
  const Setting* common = settings.get(Option::host);
  if (first == own.end() || common == nullptr || overrules(*common, first->front())) return {};
  const auto silent = std::find_if_not(own.begin(), own.end(), named);
  if (silent != own.end())
    return fail(Code::usage,
                fmt::format("part {} names no hosts, and part {} ({} {}) has hosts of its own",
                            silent - own.begin() + 1, first - own.begin() + 1, first->front().origin,
                            first->front().value),
                "give each program its own hosts, or name all hosts in one -H");

  Seating seating(job);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& words = own[i];
    const auto& origin = words.front().origin;
    if (job.elastic.enabled())
      return fail(Code::usage,
                  fmt::format("{}: the programs of an elastic job have no hosts of their own", origin),
                  "name all hosts in one -H");
    if (settings.has(Option::rankfile))
      return fail(
          Code::usage,
          fmt::format("{} and {} both say where ranks run", settings.get(Option::rankfile)->origin, origin),
          "keep one of them");
    const auto rooms = rooms_of(words, settings, inputs, job, seating);
    if (!rooms) return tl::unexpected(rooms.error());
    if (auto ok = seating.seat(job.programs[i], *rooms); !ok) {
      auto error = ok.error();
      error.message = fmt::format("part {} ({} {}): {}", i + 1, origin, words.front().value, error.message);
      return tl::unexpected(std::move(error));
    }
  }
  return {};
}

Result<void> deal_each_program(JobSpec& job) {
  if (job.programs.size() < 2 || job.map_by != MapBy::host || job.elastic.enabled() ||
      !job.rank_file.empty() || job.oversubscribe)
    return {};
  Seating seating(job);
  for (const auto& program : job.programs) {
    std::vector<Room> rooms;
    for (std::uint32_t host = 0; host < job.hosts.hosts.size(); ++host)
      rooms.push_back({host, seating.left(host)});
    if (auto ok = seating.seat(program, rooms); !ok) return ok;
  }
  return {};
}

}  // namespace trainrun::cli
