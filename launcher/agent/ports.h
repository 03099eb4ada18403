// Ports of this host, searched in a range.
#pragma once

#include <netinet/in.h>

#include <cstdint>

#include "launcher/base/fd.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

struct Bound {
  Fd socket;
  std::uint16_t port = 0;
  int error = 0;
};

// The first free port of first..last (0,0: any) on `address`, in the network's byte order.
Bound bind_in_range(in_addr_t address, std::uint16_t first, std::uint16_t last);

// A port that is bound and does not listen, so that no one else gets it while a program that sets
// SO_REUSEADDR still can.
struct HeldPort {
  Fd socket;
  wire::PortHeld answer;
};
// Not the port of `last_time`, if there is another: who had that one may not be gone yet.
HeldPort hold_port(std::uint16_t first, std::uint16_t last, const HeldPort& last_time = {});

// Whether a program that sets SO_REUSEADDR could bind this port now. It is left alone.
wire::PortHeld look_at_port(std::uint16_t port);

}  // namespace trainrun::agent
