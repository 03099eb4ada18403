// What an agent finds out about its host, and the brain needs for binding, environment and reports. Pure
// values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainrun::wire {

struct CpuFact {  // one logical CPU that the agent may use
  std::uint32_t cpu = 0, core = 0, socket = 0,
                numa = 0;  // numbers as the kernel gives them; core is unique a host

  template <class V>
  void fields(V& v) {
    v("cpu", cpu), v("core", core), v("socket", socket), v("numa", numa);
  }
  friend bool operator==(const CpuFact&, const CpuFact&) = default;
};

struct InterfaceFact {
  std::string name, address;  // "eth0", "10.0.0.3" or "fd00::3"; one entry an address

  template <class V>
  void fields(V& v) {
    v("name", name), v("address", address);
  }
  friend bool operator==(const InterfaceFact&, const InterfaceFact&) = default;
};

struct HostFacts {
  std::string hostname;
  std::string machine;  // uname -m
  bool name_is_loopback =
      false;  // its own name resolves to 127.x in /etc/hosts (Debian's default): Gloo's trap
  std::string
      ssh_connection;  // "client_ip client_port server_ip server_port", or empty when not started by sshd
  std::vector<InterfaceFact> interfaces;
  std::vector<CpuFact> cpus;           // allowed ones, ascending by cpu
  std::uint32_t quota_millicores = 0;  // cgroup CPU quota in thousandths of a core; 0: none
  std::uint32_t gpus = 0;              // found in /dev and /proc
  std::int64_t wall_clock_ns = 0;      // CLOCK_REALTIME when the facts were read
  std::string pmix_library{};          // by which ranks are served here; empty: they are not
  std::uint32_t most_processes = 0;    // that may be started at once; 0: nobody can say
  std::string processes_limit;         // what says so: "pid_max"
  std::string place{};  // boot and namespaces: hosts that have the same are one machine; or nothing

  template <class V>
  void fields(V& v) {
    v("hostname", hostname), v("machine", machine), v("name_is_loopback", name_is_loopback);
    v("ssh_connection", ssh_connection), v("interfaces", interfaces), v("cpus", cpus);
    v("quota_millicores", quota_millicores), v("gpus", gpus), v("wall_clock_ns", wall_clock_ns);
    v("pmix_library", pmix_library);
    v("most_processes", most_processes), v("processes_limit", processes_limit);
    v("place", place);
  }
  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

}  // namespace trainrun::wire
