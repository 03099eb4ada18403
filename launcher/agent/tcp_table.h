// The kernel's table of TCP connections, /proc/net/tcp and tcp6, of which anybody sees all ports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

namespace trainrun::agent {

struct TcpSocket {
  enum class State : std::uint8_t { established, connecting, listening, closing };
  State state = State::closing;
  std::uint16_t local = 0, remote = 0;  // ports
  std::uint64_t inode = 0;              // 0: no process has it any more
};

// Of the text of one of them.
std::vector<TcpSocket> tcp_sockets(std::string_view table);
// Of this host.
std::vector<TcpSocket> tcp_sockets_here();

// Whether some connection leads to `port`, or has led there: the side that closes one first keeps it for a
// minute, without a process.
bool leaves_traces(const std::vector<TcpSocket>& sockets, std::uint16_t port);

// What a process with these inodes has to do with `port`, and with which others.
struct TcpPorts {
  bool hosts = false;       // listens on it
  bool meets = false;       // that, or is connected to it
  std::size_t clients = 0;  // connections to it, of others and its own
  std::set<std::uint16_t> listens, reaches;
};
TcpPorts ports_of(const std::vector<TcpSocket>& sockets, const std::set<std::uint64_t>& inodes,
                  std::uint16_t port);

}  // namespace trainrun::agent
