#include "launcher/agent/peer_owner.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::agent {
namespace {

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 what;
};

}  // namespace

std::optional<uid_t> owner_by_netlink(const sockaddr_in& peer, std::uint16_t our_port) {
  const Fd netlink(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink) return std::nullopt;
  Request request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.what.sdiag_family = AF_INET;
  request.what.sdiag_protocol = IPPROTO_TCP;
  request.what.idiag_states = ~0U;
  request.what.id.idiag_src[0] = peer.sin_addr.s_addr;
  request.what.id.idiag_sport = peer.sin_port;
  request.what.id.idiag_dst[0] = htonl(INADDR_LOOPBACK);
  request.what.id.idiag_dport = htons(our_port);
  request.what.id.idiag_cookie[0] = request.what.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (::send(netlink.get(), &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request))
    return std::nullopt;

  // The answer is there when send() returns.
  alignas(nlmsghdr) char bytes[1024];
  const ssize_t size = ::recv(netlink.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  nlmsghdr header{};
  inet_diag_msg found{};
  if (size < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof found)) return std::nullopt;
  std::memcpy(&header, bytes, sizeof header);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  std::memcpy(&found, bytes + NLMSG_HDRLEN, sizeof found);
  // Where there is no such connection the kernel offers a listener of that port. A socket that its process
  // has closed has no inode, and says that root owns it.
  const auto& id = found.id;
  const bool same = id.idiag_sport == peer.sin_port && id.idiag_dport == htons(our_port) &&
                    id.idiag_src[0] == peer.sin_addr.s_addr && id.idiag_dst[0] == htonl(INADDR_LOOPBACK);
  if (!same || found.idiag_inode == 0) return std::nullopt;
  return found.idiag_uid;
}

std::optional<uid_t> owner_in(std::string_view table, const sockaddr_in& peer, std::uint16_t our_port) {
  // Whole addresses: another user could choose a port that one of ours has on another address.
  const auto local = fmt::format("{:08X}:{:04X}", peer.sin_addr.s_addr, ntohs(peer.sin_port)),
             remote = fmt::format("{:08X}:{:04X}", htonl(INADDR_LOOPBACK), our_port);
  for (const auto line : split(table, '\n')) {
    std::vector<std::string_view> words;
    for (const auto word : split(line, ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.size() > 9 && words[1] == local && words[2] == remote && words[9] != "0")
      return parse_unsigned<uid_t>(words[7]);
  }
  return std::nullopt;
}

std::optional<uid_t> owner_by_table(const sockaddr_in& peer, std::uint16_t our_port) {
  const auto table = read_file("/proc/net/tcp", 64u << 20);
  return table ? owner_in(*table, peer, our_port) : std::nullopt;
}

std::optional<uid_t> owner_of(const sockaddr_in& peer, std::uint16_t our_port) {
  if (const auto owner = owner_by_netlink(peer, our_port)) return owner;
  return owner_by_table(peer, our_port);
}

}  // namespace trainrun::agent
