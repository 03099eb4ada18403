// What the launcher's own work costs in a large job, apart from any system call: README.md.
//
//   bench_scale [--hosts N] [--ranks-a-host N] [--elastic]   figures of one life
//   bench_scale_counted --flat [--hosts N] [--ranks-a-host N]
//                               whether an event costs the same in a job eight times as large, elastic or not
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/base/strings.h"
#include "tests/bench/scale/cost.h"
#include "tests/bench/scale/fleet.h"

using namespace trainrun;
using namespace trainrun::bench;

namespace {

// An event may cost so many times as much in the larger job: what is looked up in trees grows a little.
constexpr double most_growth = 1.3;
constexpr std::uint32_t times_larger = 8;
constexpr double least_operations = 20;
constexpr std::uint64_t most_digits = 16;  // that numbers and names have more, in what a member gets

struct Phase {
  const char* name;
  std::uint64_t (Fleet::*run)();
};
constexpr std::array phases{
    Phase{"ready", &Fleet::ready},     Phase{"start", &Fleet::start},   Phase{"started", &Fleet::started},
    Phase{"join", &Fleet::join},       Phase{"heard", &Fleet::heard},   Phase{"barrier", &Fleet::barrier},
    Phase{"leave", &Fleet::leave},     Phase{"exited", &Fleet::exited}, Phase{"finished", &Fleet::finished},
    Phase{"stopped", &Fleet::stopped},
};

struct Figures {
  std::array<std::uint64_t, phases.size()> events{};
  std::array<Cost, phases.size()> costs{};  // without the members'
  Cost members;
  std::uint32_t ranks = 0;
  std::uint64_t bytes_to_members = 0;
  std::string wrong;

  [[nodiscard]] double operations_an_event(std::size_t phase) const {
    return static_cast<double>(costs[phase].operations) / static_cast<double>(events[phase]);
  }
};

Figures live(std::uint32_t hosts, std::uint32_t ranks_a_host, Fleet::Kind kind) {
  Fleet fleet(hosts, ranks_a_host, kind);
  Figures figures;
  for (std::size_t i = 0; i < phases.size() && fleet.wrong().empty(); ++i) {
    const auto before = cost_so_far() - fleet.cost_of_members();
    figures.events[i] = (fleet.*phases[i].run)();
    figures.costs[i] = cost_so_far() - fleet.cost_of_members() - before;
  }
  figures.members = fleet.cost_of_members();
  figures.ranks = fleet.ranks();
  figures.bytes_to_members = fleet.bytes_to_members();
  figures.wrong = fleet.wrong();
  return figures;
}

int show(std::uint32_t hosts, std::uint32_t ranks_a_host, Fleet::Kind kind) {
  const auto figures = live(hosts, ranks_a_host, kind);
  if (!figures.wrong.empty()) return std::fprintf(stderr, "bench_scale: %s\n", figures.wrong.c_str()), 1;
  double whole = 0;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    whole += figures.costs[i].cpu_s;
    fmt::print("{:10} {:7} events {:8.3f} s {:8.2f} us an event\n", phases[i].name, figures.events[i],
               figures.costs[i].cpu_s, figures.costs[i].cpu_s * 1e6 / static_cast<double>(figures.events[i]));
  }
  fmt::print(
      "{} ranks on {} hosts: {:.2f} s of CPU, and {:.2f} s of the members; {:.0f} MiB, theirs included; {} "
      "bytes to a member\n",
      figures.ranks, hosts, whole, figures.members.cpu_s, peak_mib(),
      figures.bytes_to_members / figures.ranks);
  return 0;
}

bool is_flat(std::uint32_t hosts, std::uint32_t ranks_a_host, Fleet::Kind kind) {
  const auto small = live(hosts, ranks_a_host, kind), large = live(hosts * times_larger, ranks_a_host, kind);
  if (!small.wrong.empty() || !large.wrong.empty())
    return std::fprintf(stderr, "bench_scale: %s %s\n", small.wrong.c_str(), large.wrong.c_str()), false;
  fmt::print("{}: operations an event with {} and {} ranks\n",
             kind == Fleet::Kind::elastic ? "elastic" : "not elastic", small.ranks, large.ranks);
  bool good = true;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const auto growth = large.operations_an_event(i) / small.operations_an_event(i);
    fmt::print("{:10} {:8.0f} {:8.0f}  x {:.2f}\n", phases[i].name, small.operations_an_event(i),
               large.operations_an_event(i), growth);
    if (small.operations_an_event(i) < least_operations)
      return std::fprintf(stderr, "bench_scale: %s: nothing is counted\n", phases[i].name), false;
    if (growth <= most_growth) continue;
    std::fprintf(stderr, "bench_scale: %s: an event costs %.2f times as much, and not %.1f at most\n",
                 phases[i].name, growth, most_growth);
    good = false;
  }
  const auto bytes = small.bytes_to_members / small.ranks, more = large.bytes_to_members / large.ranks;
  fmt::print("{:10} {:8} {:8}\n", "bytes", bytes, more);
  if (more <= bytes + most_digits) return good;
  std::fprintf(stderr, "bench_scale: a member gets more bytes of the rendezvous in a larger job\n");
  return false;
}

int compare(std::uint32_t hosts, std::uint32_t ranks_a_host) {
  const bool fixed = is_flat(hosts, ranks_a_host, Fleet::Kind::fixed);
  return is_flat(hosts, ranks_a_host, Fleet::Kind::elastic) && fixed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint32_t hosts = 1250, ranks_a_host = 8;
  bool flat = false;
  auto kind = Fleet::Kind::fixed;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto number = i + 1 < argc ? parse_unsigned<std::uint32_t>(argv[i + 1]) : std::nullopt;
    if (word == "--flat") {
      flat = true;
    } else if (word == "--elastic") {
      kind = Fleet::Kind::elastic;
    } else if ((word == "--hosts" || word == "--ranks-a-host") && number && *number > 0) {
      (word == "--hosts" ? hosts : ranks_a_host) = *number;
      ++i;
    } else {
      std::fprintf(stderr, "usage: bench_scale [--hosts N] [--ranks-a-host N] [--elastic] [--flat]\n");
      return 2;
    }
  }
  return flat ? compare(hosts, ranks_a_host) : show(hosts, ranks_a_host, kind);
}
