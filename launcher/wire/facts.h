// What an agent finds out about its host, and the brain needs for binding, environment and reports. Pure
// values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainrun::wire {

struct CpuFact {  // one logical CPU that the agent may use
  std::uint32_t cpu = 0, core = 0, socket = 0,
                numa = 0;  // numbers as the kernel gives them; core is unique a host
  std::uint32_t l3 = 0;    // the first CPU of those that share its third-level cache, or numa

  template <class V>
  void fields(V& v) {
    v("cpu", cpu), v("core", core), v("socket", socket), v("numa", numa), v("l3", l3);
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

// mpich: and Intel MPI and MVAPICH, which speak PMI-1 as it does. open_mpi: or anything else that is linked
// with libpmix. none: or a program that runs others which its files do not tell.
enum class MpiFamily : std::uint8_t { none, mpich, open_mpi };
constexpr bool is_known(MpiFamily family) { return family <= MpiFamily::open_mpi; }
constexpr std::string_view to_string(MpiFamily family) {
  return family == MpiFamily::open_mpi ? "open mpi" : family == MpiFamily::mpich ? "mpich" : "none";
}
// As people write it.
constexpr std::string_view name_of(MpiFamily family) {
  return family == MpiFamily::open_mpi ? "Open MPI" : family == MpiFamily::mpich ? "MPICH" : "none";
}

// Whose MPI a program of the job is, as far as its files on this host tell.
struct MpiFact {
  MpiFamily family = MpiFamily::none;
  bool guessed = false;   // it is named by what is started, or might be used by it: it need not be run
  std::string missing{};  // its library of MPI, and why it cannot be loaded here; empty: all is well

  template <class V>
  void fields(V& v) {
    v("family", family), v("guessed", guessed), v("missing", missing);
  }
  friend bool operator==(const MpiFact&, const MpiFact&) = default;
};

// What the job's programs need, as far as their files on this host tell.
struct ProgramFacts {
  std::string pmix_library{};  // by which ranks are served here; empty: they are not
  std::vector<MpiFact> mpi{};  // of each of the job's programs; empty: nobody looked
  bool horovod = false;        // one of them imports Horovod

  template <class V>
  void fields(V& v) {
    v("pmix_library", pmix_library), v("mpi", mpi), v("horovod", horovod);
  }
  friend bool operator==(const ProgramFacts&, const ProgramFacts&) = default;
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
  ProgramFacts programs{};             // empty until they were looked at
  std::uint32_t most_processes = 0;    // that may be started at once; 0: nobody can say
  std::string processes_limit;         // what says so: "pid_max"
  std::string place{};  // boot and namespaces: hosts that have the same are one machine; or nothing

  template <class V>
  void fields(V& v) {
    v("hostname", hostname), v("machine", machine), v("name_is_loopback", name_is_loopback);
    v("ssh_connection", ssh_connection), v("interfaces", interfaces), v("cpus", cpus);
    v("quota_millicores", quota_millicores), v("gpus", gpus), v("wall_clock_ns", wall_clock_ns);
    v("programs", programs), v("most_processes", most_processes), v("processes_limit", processes_limit);
    v("place", place);
  }
  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

}  // namespace trainrun::wire
