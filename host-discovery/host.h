// The nouns Host and HostSet. Pure values; nothing here resolves a name or opens anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainrun {

// A machine as the user named it. `name` is kept verbatim (case, domain, brackets removed from an IPv6
// address).
struct Host {
  std::string name;
  std::string user{};        // empty: ssh's own choice
  std::uint16_t port = 0;    // 0: ssh's own choice
  std::string identity{};    // path of a private key; empty: ssh's own choice
  int slots = 1;             // how many workers it takes
  bool slots_given = false;  // false: nobody wrote a count, `slots` is a default

  friend bool operator==(const Host&, const Host&) = default;
};

// What one discovery produced. Order is law for ranks.
struct HostSet {
  std::vector<Host> hosts;
  std::uint64_t revision = 0;  // grows whenever a new discovery differs

  friend bool operator==(const HostSet&, const HostSet&) = default;
};

}  // namespace trainrun
