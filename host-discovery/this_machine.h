// This machine: whether a host of a list is the one that we run on, so that it needs no login. Answered
// without DNS, so that a job here needs no network.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "host-discovery/host.h"

namespace trainrun::hosts {

// As those are given it who must not ask the system themselves.
using IsThisMachine = std::function<bool(const Host&)>;

class ThisMachine {
 public:
  struct Facts {
    std::string host_name;                 // as the kernel has it, short or in full
    std::vector<std::string> addresses{};  // of our interfaces
    std::string hosts_file{};              // the text of /etc/hosts
    std::function<std::string()> user{};   // whose login this is; asked only when a host names a user
  };
  explicit ThisMachine(Facts facts);

  // localhost, 127.x, ::1, our host name (its first part too), an address of ours, or a name that /etc/hosts
  // gives one of these addresses.
  [[nodiscard]] bool has_name(std::string_view name) const;
  // A name of ours, and no login of its own: a port means another sshd, even on this address (a container, a
  // forwarded port), and another user means a login.
  [[nodiscard]] bool is(const Host& host) const;

 private:
  [[nodiscard]] bool has_address(std::string_view bytes) const;

  std::function<std::string()> user_;
  std::set<std::string> names_;                   // as name_key() gives them
  std::set<std::string, std::less<>> addresses_;  // as address_bytes() gives them
};

}  // namespace trainrun::hosts
