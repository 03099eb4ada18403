// Whose process is at the other end of a connection on loopback, or would be?
#pragma once

#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "launcher/base/fd.h"

namespace trainrun::agent {

struct PeerOwner {
  uid_t user = 0;
  std::uint64_t inode = 0;  // of the peer's socket: /proc/PID/fd of its processes shows it
  friend bool operator==(const PeerOwner&, const PeerOwner&) = default;
};

// By this the kernel is asked about sockets, again and again; none where it does not answer (some
// containers).
Fd open_netlink();

// Of the socket at `peer`, whose other end is `our_port` of 127.0.0.1. Nothing: there is no such connection
// any more, or its owner is not known, so nobody should be trusted.
// `spare` is given up where finding out takes a descriptor.
std::optional<PeerOwner> owner_of(const Fd& netlink, Fd& spare, const sockaddr_in& peer,
                                  std::uint16_t our_port);

// Of the socket that listens at `where`, an address of this host, or on all of them.
std::optional<PeerOwner> owner_of_listener(const sockaddr_in& where);

// The two ways to know, for their tests. The kernel's answer about one socket takes microseconds; its table
// of all sockets takes 5 ms of each connection and a descriptor, but is there where netlink is not.
std::optional<PeerOwner> owner_by_netlink(const Fd& netlink, const sockaddr_in& peer, std::uint16_t our_port);
std::optional<PeerOwner> owner_by_table(const sockaddr_in& peer, std::uint16_t our_port);
std::optional<PeerOwner> listener_by_netlink(const sockaddr_in& where);
std::optional<PeerOwner> listener_by_table(const sockaddr_in& where);
// Of the text of /proc/net/tcp or tcp6.
std::optional<PeerOwner> owner_in(std::string_view table, const sockaddr_in& peer, std::uint16_t our_port);
std::optional<PeerOwner> listener_in(std::string_view table, const sockaddr_in& where);

}  // namespace trainrun::agent
