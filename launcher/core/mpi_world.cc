#include "launcher/core/mpi_world.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace trainrun::core {
namespace {

// Each program on each of its hosts, where it is one of MPI.
std::vector<MpiPart> parts_of(const JobSpec& job, const Placement& world, const FactsOf& facts) {
  std::vector<MpiPart> parts;
  std::set<std::pair<std::size_t, HostIndex>> seen;
  for (const auto& seat : world.seats) {
    if (!seen.emplace(seat.program, seat.host).second) continue;
    const auto* known = facts(seat.host);
    if (known == nullptr || seat.program >= known->programs.mpi.size()) continue;
    const auto& fact = known->programs.mpi[seat.program];
    if (fact.family == wire::MpiFamily::none) continue;
    parts.push_back({static_cast<std::uint32_t>(seat.program),
                     job.programs[seat.program].argv.front(),
                     {seat.host, job.hosts.hosts[seat.host.value].name},
                     fact.family,
                     fact.guessed});
  }
  return parts;
}

MpiService service_of(const JobSpec& job, wire::MpiFamily family, const wire::HostFacts& facts) {
  if (family == wire::MpiFamily::open_mpi)
    return facts.programs.pmix_library.empty() ? MpiService::none : MpiService::pmix;
  return job.compat == Compat::open_mpi ? MpiService::none : MpiService::pmi;
}

}  // namespace

std::optional<std::pair<MpiPart, MpiPart>> mpi_clash(const JobSpec& job, const Placement& world,
                                                     const FactsOf& facts) {
  const auto parts = parts_of(job, world, facts);
  for (const bool guesses : {false, true}) {
    for (auto first = parts.begin(); first != parts.end(); ++first) {
      if (first->guessed && !guesses) continue;
      const auto second = std::find_if(first, parts.end(), [&](const MpiPart& other) {
        return other.family != first->family && (guesses || !other.guessed);
      });
      if (second != parts.end()) return std::pair(*first, *second);
    }
  }
  return std::nullopt;
}

std::vector<notice::MpiFound> mpi_found(const JobSpec& job, const Placement& world, const FactsOf& facts) {
  std::vector<notice::MpiFound> found;
  for (const auto& part : parts_of(job, world, facts)) {
    const auto& host = *facts(part.host.index);
    notice::MpiFound one{part, service_of(job, part.family, host), {}};
    if (one.service == MpiService::pmix) one.library = host.programs.pmix_library;
    const auto same = [](const notice::MpiFound& it) {
      return std::tie(it.what.part, it.what.family, it.what.guessed, it.service, it.library);
    };
    if (std::none_of(found.begin(), found.end(), [&](const auto& other) { return same(other) == same(one); }))
      found.push_back(std::move(one));
  }
  return found;
}

}  // namespace trainrun::core
