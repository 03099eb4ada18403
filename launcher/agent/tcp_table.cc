#include "launcher/agent/tcp_table.h"

#include <charconv>
#include <optional>
#include <string>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

constexpr std::size_t most_of_table = 16u << 20;

using State = TcpSocket::State;

State state_of(std::string_view word) {
  if (word == "01") return State::established;
  if (word == "02") return State::connecting;
  return word == "0A" ? State::listening : State::closing;
}

// Of "0100007F:733C".
std::optional<std::uint16_t> port_in(std::string_view address) {
  const auto digits = address.substr(address.rfind(':') + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port, 16);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return port;
}

}  // namespace

std::vector<TcpSocket> tcp_sockets(std::string_view table) {
  std::vector<TcpSocket> found;
  for (const auto line : split(table, '\n')) {
    std::vector<std::string_view> words;
    for (const auto word : split(line, ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.size() < 10) continue;
    const auto local = port_in(words[1]), remote = port_in(words[2]);
    const auto inode = parse_unsigned<std::uint64_t>(words[9]);
    if (local && remote && inode) found.push_back({state_of(words[3]), *local, *remote, *inode});
  }
  return found;
}

std::vector<TcpSocket> tcp_sockets_here() {
  auto found = tcp_sockets(read_file("/proc/net/tcp", most_of_table).value_or(std::string{}));
  const auto more = tcp_sockets(read_file("/proc/net/tcp6", most_of_table).value_or(std::string{}));
  found.insert(found.end(), more.begin(), more.end());
  return found;
}

bool leaves_traces(const std::vector<TcpSocket>& sockets, std::uint16_t port) {
  for (const auto& socket : sockets) {
    if (socket.remote == port || (socket.local == port && socket.state != State::listening)) return true;
  }
  return false;
}

TcpPorts ports_of(const std::vector<TcpSocket>& sockets, const std::set<std::uint64_t>& inodes,
                  std::uint16_t port) {
  TcpPorts found;
  for (const auto& socket : sockets) {
    if (socket.inode == 0 || !inodes.contains(socket.inode)) continue;
    if (socket.state == State::listening) {
      found.listens.insert(socket.local);
    } else if (socket.state == State::established && socket.local == port) {
      ++found.clients;
    } else if (socket.state == State::established) {
      found.reaches.insert(socket.remote);
    }
  }
  found.hosts = found.listens.erase(port) > 0;
  found.meets = found.reaches.erase(port) > 0 || found.hosts;
  return found;
}

}  // namespace trainrun::agent
