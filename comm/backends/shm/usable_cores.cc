#include "comm/backends/shm/usable_cores.h"

#include <algorithm>
#include <string>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::comm {
namespace {

constexpr std::size_t small_file = 64 << 10;

// Of the unified hierarchy: the line "0::/path".
std::string own_cgroup() {
  const auto text = read_file("/proc/self/cgroup", small_file);
  if (!text) return {};
  for (const auto line : split(*text, '\n'))
    if (line.starts_with("0::/")) return std::string(line.substr(3));
  return {};
}

}  // namespace

cpu_set_t own_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0)  // a kernel with more cores than the set holds
    for (std::size_t i = 0; i < CPU_SETSIZE; ++i) CPU_SET(i, &cores);
  return cores;
}

std::optional<std::uint32_t> cores_of_limit(std::string_view cpu_max) {
  const auto words = split(trim(cpu_max), ' ');
  if (words.size() != 2) return std::nullopt;
  const auto quota = parse_unsigned<std::uint64_t>(words[0]),
             period = parse_unsigned<std::uint64_t>(words[1]);
  if (!quota || !period || *period == 0) return std::nullopt;  // "max"
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(*quota / *period, 1, CPU_SETSIZE));
}

std::uint32_t usable_cores(const cpu_set_t& cores) {
  auto usable = static_cast<std::uint32_t>(CPU_COUNT(&cores));
  for (auto path = own_cgroup(); !path.empty(); path.erase(path.rfind('/'))) {
    const auto text = read_file("/sys/fs/cgroup" + path + "/cpu.max", small_file);
    if (const auto limit = text ? cores_of_limit(*text) : std::nullopt) usable = std::min(usable, *limit);
  }
  return usable;
}

}  // namespace trainrun::comm
