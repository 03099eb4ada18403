#include "cli/singleton.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::cli {

void release_singleton(const std::vector<std::string>& words) {
  if (words.size() < 2 || words[0] != "-pmi_args") return;
  const auto port = parse_unsigned<std::uint16_t>(words[1]);
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!port || !socket) return;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(*port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // On loopback it is accepted or refused at once.
  static_cast<void>(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address));
}

}  // namespace trainrun::cli
