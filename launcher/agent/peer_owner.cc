#include "launcher/agent/peer_owner.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
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

// A peer may have connected by a socket of IPv6, where an IPv4 address is ::ffff:a.b.c.d: PyTorch does.
constexpr std::string_view mapped_in_table = "0000000000000000FFFF0000";

bool is_address(std::uint8_t family, const __be32 (&address)[4], in_addr_t wanted) {
  if (family == AF_INET) return address[0] == wanted;
  return address[0] == 0 && address[1] == 0 && address[2] == htonl(0xffff) && address[3] == wanted;
}

// What the kernel knows of the one socket with these two ends; where there is none, of a listener at
// `source`.
std::optional<inet_diag_msg> ask_kernel(const Fd& netlink, const sockaddr_in& source,
                                        const sockaddr_in& destination) {
  if (!netlink) return std::nullopt;
  Request request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.what.sdiag_family = AF_INET;
  request.what.sdiag_protocol = IPPROTO_TCP;
  request.what.idiag_states = ~0U;
  request.what.id.idiag_src[0] = source.sin_addr.s_addr;
  request.what.id.idiag_sport = source.sin_port;
  request.what.id.idiag_dst[0] = destination.sin_addr.s_addr;
  request.what.id.idiag_dport = destination.sin_port;
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
  return found;
}

// The rows of the kernel's table, each as its words; nothing of rows without a process.
template <class Wanted>
std::optional<PeerOwner> owner_where(std::string_view table, const Wanted& wanted) {
  for (const auto line : split(table, '\n')) {
    std::vector<std::string_view> words;
    for (const auto word : split(line, ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.size() < 10 || words[9] == "0" || !wanted(words)) continue;
    const auto user = parse_unsigned<uid_t>(words[7]);
    const auto inode = parse_unsigned<std::uint64_t>(words[9]);
    return user && inode ? std::optional(PeerOwner{*user, *inode}) : std::nullopt;
  }
  return std::nullopt;
}

template <class Search>
std::optional<PeerOwner> by_tables(const Search& search) {
  for (const auto* name : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto table = read_file(name, 64u << 20);
    if (!table) continue;
    if (const auto owner = search(*table)) return owner;
  }
  return std::nullopt;
}

}  // namespace

Fd open_netlink() { return Fd(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)); }

std::optional<PeerOwner> owner_by_netlink(const Fd& netlink, const sockaddr_in& peer,
                                          std::uint16_t our_port) {
  sockaddr_in ours{};
  ours.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ours.sin_port = htons(our_port);
  const auto found = ask_kernel(netlink, peer, ours);
  if (!found) return std::nullopt;
  // Where there is no such connection the kernel offers a listener of that port. A socket that its process
  // has closed has no inode, and says that root owns it.
  const auto& id = found->id;
  const bool same = id.idiag_sport == peer.sin_port && id.idiag_dport == htons(our_port) &&
                    is_address(found->idiag_family, id.idiag_src, peer.sin_addr.s_addr) &&
                    is_address(found->idiag_family, id.idiag_dst, htonl(INADDR_LOOPBACK));
  if (!same || found->idiag_inode == 0) return std::nullopt;
  return PeerOwner{found->idiag_uid, found->idiag_inode};
}

std::optional<PeerOwner> listener_by_netlink(const sockaddr_in& where) {
  const auto found = ask_kernel(open_netlink(), where, {});
  if (!found || found->idiag_state != TCP_LISTEN || found->id.idiag_sport != where.sin_port ||
      found->idiag_inode == 0)
    return std::nullopt;
  return PeerOwner{found->idiag_uid, found->idiag_inode};
}

std::optional<PeerOwner> owner_in(std::string_view table, const sockaddr_in& peer, std::uint16_t our_port) {
  // Whole addresses: another user could choose a port that one of ours has on another address.
  const auto local = fmt::format("{:08X}:{:04X}", peer.sin_addr.s_addr, ntohs(peer.sin_port)),
             remote = fmt::format("{:08X}:{:04X}", htonl(INADDR_LOOPBACK), our_port);
  const auto is = [](std::string_view word, std::string_view wanted) {
    if (word.starts_with(mapped_in_table)) word.remove_prefix(mapped_in_table.size());
    return word == wanted;
  };
  return owner_where(table, [&](const auto& words) { return is(words[1], local) && is(words[2], remote); });
}

std::optional<PeerOwner> listener_in(std::string_view table, const sockaddr_in& where) {
  constexpr std::string_view listens = "0A";
  const auto port = fmt::format(":{:04X}", ntohs(where.sin_port));
  const auto exactly = fmt::format("{:08X}", where.sin_addr.s_addr);
  return owner_where(table, [&](const auto& words) {
    auto address = words[1];
    if (words[3] != listens || !address.ends_with(port)) return false;
    address.remove_suffix(port.size());
    if (address.starts_with(mapped_in_table)) address.remove_prefix(mapped_in_table.size());
    return address == exactly || address.find_first_not_of('0') == std::string_view::npos;
  });
}

std::optional<PeerOwner> owner_by_table(const sockaddr_in& peer, std::uint16_t our_port) {
  return by_tables([&](const auto& table) { return owner_in(table, peer, our_port); });
}

std::optional<PeerOwner> listener_by_table(const sockaddr_in& where) {
  return by_tables([&](const auto& table) { return listener_in(table, where); });
}

std::optional<PeerOwner> owner_of(const Fd& netlink, Fd& spare, const sockaddr_in& peer,
                                  std::uint16_t our_port) {
  if (const auto owner = owner_by_netlink(netlink, peer, our_port)) return owner;
  spare.reset();
  return owner_by_table(peer, our_port);
}

std::optional<PeerOwner> owner_of_listener(const sockaddr_in& where) {
  if (const auto owner = listener_by_netlink(where)) return owner;
  return listener_by_table(where);
}

}  // namespace trainrun::agent
