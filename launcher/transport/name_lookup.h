// The addresses of a host, with a deadline, which getaddrinfo does not have.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "launcher/transport/dial_socket.h"

namespace trainrun::transport {

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
  int family = AF_UNSPEC;
};

struct Answer {
  std::vector<Address> addresses;  // at most 8, in the resolver's order; port 0
  std::string failure;             // the resolver's words; empty: none
};

// May be called from many threads at once; a name that takes long delays no other. The error is that of
// `time_limit`, in which `host` is what the user typed; `name` is what it stands for.
Result<Answer> look_up(const std::string& host, const std::string& name, const DialLimit& time_limit);

}  // namespace trainrun::transport
