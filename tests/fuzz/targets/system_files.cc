// Files of the system that other users can write into: names of processes, environments, the kernel's log,
// the table of connections, /etc/hosts.
#include <arpa/inet.h>

#include "host-discovery/this_machine.h"
#include "launcher/agent/out_of_memory.h"
#include "launcher/agent/peer_owner.h"
#include "launcher/agent/process_stat.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = text_of(data, size);
  if (const auto stat = agent::parse_stat(text)) {
    accepted();
    // Whatever a program calls itself, what stands after its name counts.
    const auto renamed = "17 (a) R 1 (" + std::string(text.substr(0, text.rfind(')'))) + ")" +
                         std::string(text.substr(text.rfind(')') + 1));
    const auto again = agent::parse_stat(renamed);
    FUZZ_CHECK(again && again->state == stat->state && again->parent == stat->parent &&
               again->started == stat->started && again->lives() == stat->lives());
  }
  if (const auto worker = agent::mark_in(text)) {
    accepted();
    FUZZ_CHECK(text.find("TRAINRUN_WORKER=") != std::string_view::npos);
  }
  if (const auto victim = agent::victim_in(text)) {
    accepted();
    FUZZ_CHECK(victim->second.size() <= 200 && victim->second.find('\n') == std::string::npos);
  }
  if (agent::kills_in(text)) accepted();
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(0x1234);
  peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (agent::owner_in(text, peer, 80)) accepted();
  const auto machine = [&text](const char* name, std::vector<std::string> addresses) {
    return hosts::ThisMachine(
        {.host_name = name, .addresses = std::move(addresses), .hosts_file = std::string(text)});
  };
  if (machine("here", {"10.0.0.1"}).has_name("gpu1")) accepted();
  static_cast<void>(machine("here.site", {"10.0.0.1", "fd00::1"}).has_name(text.substr(0, 300)));
  return 0;
}
