#include "launcher/agent/host_facts.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "launcher/agent/own_place.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

std::string small_file(const std::string& path) { return read_file(path, 1u << 20).value_or(std::string{}); }

// One line of the kernel's, which is never longer than a page.
std::string value_in(const std::string& path) {
  return std::string(trim(read_file(path, 4096).value_or(std::string{})));
}

std::optional<std::uint64_t> count_in(const std::string& path) {
  return parse_unsigned<std::uint64_t>(value_in(path));
}

std::uint32_t number_in(const std::string& path, std::uint32_t otherwise) {
  return parse_unsigned<std::uint32_t>(value_in(path)).value_or(otherwise);
}

// Of "0-3,8".
std::uint32_t first_in(const std::string& path, std::uint32_t otherwise) {
  const auto list = value_in(path);
  return parse_unsigned<std::uint32_t>(std::string_view(list).substr(0, list.find_first_of(",-")))
      .value_or(otherwise);
}

std::vector<std::uint32_t> allowed_cpus() {
  // The mask may be longer than cpu_set_t on large machines: grow until the kernel is content.
  for (std::size_t bits = 1024; bits <= (1u << 20); bits *= 2) {
    cpu_set_t* set = CPU_ALLOC(bits);
    const std::size_t size = CPU_ALLOC_SIZE(bits);
    CPU_ZERO_S(size, set);
    std::vector<std::uint32_t> cpus;
    const bool ok = ::sched_getaffinity(0, size, set) == 0;
    for (std::size_t cpu = 0; ok && cpu < bits; ++cpu) {
      if (CPU_ISSET_S(cpu, size, set)) cpus.push_back(static_cast<std::uint32_t>(cpu));
    }
    CPU_FREE(set);
    if (ok) return cpus;
  }
  return {0};
}

std::vector<wire::CpuFact> read_cpus(bool topology) {
  std::vector<wire::CpuFact> facts;
  const bool threads = value_in("/sys/devices/system/cpu/smt/active") == "1";
  for (const auto cpu : allowed_cpus()) {
    wire::CpuFact fact{cpu, cpu, 0, 0};
    const auto base = fmt::format("/sys/devices/system/cpu/cpu{}/", cpu);
    if (threads) {
      // The first of a core's siblings names the core: unlike core_id it is unique on the host.
      fact.core = first_in(base + "topology/thread_siblings_list", cpu);
    }
    if (topology) {
      fact.socket = number_in(base + "topology/physical_package_id", 0);
      for (std::uint32_t node = 0; node < 1024; ++node) {
        if (::access(fmt::format("{}node{}", base, node).c_str(), F_OK) == 0) {
          fact.numa = node;
          break;
        }
      }
      fact.l3 = first_in(base + "cache/index3/shared_cpu_list", fact.numa);
    }
    facts.push_back(fact);
  }
  return facts;
}

// The tightest quota of our cgroup and those above it; v2 and v1 are both common, sometimes at once.
std::uint32_t quota_millicores(const std::vector<std::string_view>& groups) {
  std::uint64_t tightest = 0;
  const auto consider = [&tightest](std::optional<std::uint64_t> quota, std::optional<std::uint64_t> period) {
    if (!quota || !period || *period == 0) return;
    const auto millis = *quota * 1000 / *period;
    if (tightest == 0 || millis < tightest) tightest = millis;
  };
  for (const auto line : groups) {
    const auto parts = split(line, ':');
    if (parts.size() < 3) continue;
    const bool v2 = parts[0] == "0" && parts[1].empty();
    const bool v1 = parts[1] == "cpu" || parts[1] == "cpu,cpuacct" || parts[1] == "cpuacct,cpu";
    if (!v1 && !v2) continue;
    for (std::string path(parts[2]); !path.empty();
         path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'))) {
      if (v2) {
        const auto text = value_in("/sys/fs/cgroup" + path + "/cpu.max");
        const auto words = split(text, ' ');
        if (words.size() == 2)
          consider(parse_unsigned<std::uint64_t>(words[0]), parse_unsigned<std::uint64_t>(words[1]));
      } else {
        const auto base = "/sys/fs/cgroup/cpu" + path;
        consider(count_in(base + "/cpu.cfs_quota_us"), count_in(base + "/cpu.cfs_period_us"));
      }
    }
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(tightest, UINT32_MAX));
}

// The tightest of what the kernel allows, of our control groups and of our own limit. Who is close to one
// finds out at the start; this is for those who are far beyond it.
std::pair<std::uint32_t, std::string> most_processes(const std::vector<std::string_view>& groups) {
  std::pair<std::uint64_t, std::string> tightest{UINT32_MAX, ""};
  const auto consider = [&tightest](std::optional<std::uint64_t> limit, const char* name) {
    if (limit && *limit < tightest.first) tightest = {*limit, name};
  };
  consider(count_in("/proc/sys/kernel/pid_max"), "kernel.pid_max");
  for (const auto line : groups) {
    const auto parts = split(line, ':');
    if (parts.size() < 3 || (parts[1] != "pids" && !parts[1].empty())) continue;
    const std::string root = parts[1].empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids";
    for (std::string path(parts[2]); !path.empty();
         path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/')))
      consider(count_in(root + path + "/pids.max"), "pids.max of its control group");
  }
  rlimit limit{};
  if (::geteuid() != 0 && ::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    consider(limit.rlim_cur, "ulimit -u");
  if (tightest.second.empty()) return {};
  return {static_cast<std::uint32_t>(tightest.first), tightest.second};
}

std::uint32_t entries(const char* path, const std::function<bool(std::string_view)>& counts) {
  std::uint32_t count = 0;
  DIR* directory = ::opendir(path);
  if (directory == nullptr) return 0;
  while (const dirent* entry = ::readdir(directory)) count += counts(entry->d_name) ? 1 : 0;
  ::closedir(directory);
  return count;
}

std::uint32_t gpus() {
  const auto nvidia =
      entries("/proc/driver/nvidia/gpus", [](std::string_view name) { return name.front() != '.'; });
  if (nvidia > 0) return nvidia;
  return entries("/sys/class/kfd/kfd/topology/nodes", [](std::string_view name) {
    if (name.front() == '.') return false;
    const auto text = small_file(fmt::format("/sys/class/kfd/kfd/topology/nodes/{}/properties", name));
    return text.find("simd_count ") != std::string::npos && text.find("simd_count 0\n") == std::string::npos;
  });
}

std::vector<wire::InterfaceFact> interfaces() {
  std::vector<wire::InterfaceFact> facts;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return facts;
  for (const ifaddrs* it = list; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || (it->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (it->ifa_addr->sa_family == AF_INET) {
      ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(it->ifa_addr)->sin_addr, text, sizeof text);
    } else if (it->ifa_addr->sa_family == AF_INET6) {
      const auto& address = reinterpret_cast<const sockaddr_in6*>(it->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;  // no use without a scope that differs from host to host
      ::inet_ntop(AF_INET6, &address, text, sizeof text);
    } else {
      continue;
    }
    facts.push_back({it->ifa_name, text});
  }
  ::freeifaddrs(list);
  return facts;
}

bool resolves_to_loopback(std::string_view hostname) {
  const auto hosts = small_file("/etc/hosts");
  for (auto line : split(hosts, '\n')) {
    line = line.substr(0, line.find('#'));
    if (!line.starts_with("127.")) continue;
    std::string flat(line);
    for (auto& c : flat) c = c == '\t' ? ' ' : c;
    for (const auto word : split(flat, ' ')) {
      if (word == hostname) return true;
    }
  }
  return false;
}

// Of this boot, these processes and this network. Two containers that share the one and not the other are two
// places.
std::string place() {
  const auto network = link_in_proc("/proc/self/ns/net");
  if (boot_id().empty() || pid_namespace().empty() || network.empty()) return {};
  return fmt::format("{}/{}/{}", boot_id(), pid_namespace(), network);
}

}  // namespace

std::string own_tmpdir() {
  const char* named = std::getenv("TMPDIR");
  return named != nullptr ? named : "";
}

wire::EnvPairs own_login() {
  wire::EnvPairs found;
  for (const char* name : {"HOME", "USER", "LOGNAME", "SHELL"})
    if (const char* value = std::getenv(name)) found.emplace_back(name, value);
  return found;
}

wire::HostFacts read_host_facts(Wanted wanted) {
  wire::HostFacts facts;
  utsname names{};
  if (::uname(&names) == 0) {
    facts.hostname = names.nodename;
    facts.machine = names.machine;
  }
  facts.name_is_loopback = resolves_to_loopback(facts.hostname);
  if (const char* connection = std::getenv("SSH_CONNECTION")) facts.ssh_connection = connection;
  if (wanted.addresses) facts.interfaces = interfaces();
  facts.cpus = read_cpus(wanted.topology);
  const auto own_groups = small_file("/proc/self/cgroup");
  const auto groups = split(own_groups, '\n');
  facts.quota_millicores = quota_millicores(groups);
  facts.gpus = gpus();
  facts.place = place();
  std::tie(facts.most_processes, facts.processes_limit) = most_processes(groups);
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  facts.wall_clock_ns = static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  return facts;
}

}  // namespace trainrun::agent
