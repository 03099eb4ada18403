// A TCP connection for blocking code, each call with a deadline. A deadline moves on by the time for which
// the process stood still (^Z, SIGSTOP) while it waited: nobody could act on it then. A forked child does not
// have the connection.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/base/error.h"
#include "launcher/base/fd.h"
#include "launcher/base/time.h"
#include "rendezvous/parents_fd.h"

namespace trainrun::rendezvous {

// "host:port", "1.2.3.4:port" or "[v6]:port".
Result<std::pair<std::string, std::uint16_t>> split_address(std::string_view text);

class Socket {
 public:
  // Tries every address that the name has. The look-up of a name (numbers need none) is not bound by the
  // deadline, the system's resolver has its own.
  static Result<Socket> connect(const std::string& address, Instant& deadline);
  explicit Socket(Fd connected) : fd_(std::move(connected)) {}

  // Code::timeout after the deadline, Code::lost when the peer has gone. Only these two calls may run at the
  // same time in two threads.
  Result<void> send(std::string_view bytes, Instant& deadline);
  Result<std::string> receive(Instant& deadline);  // at least one byte

  // From any thread: calls that run and all later ones fail with Code::lost.
  void shut_down();
  // The numeric address of our end, without the port: what the peer's side of the network calls us.
  [[nodiscard]] std::string local_address() const;

 private:
  ParentsFd fd_;
};

}  // namespace trainrun::rendezvous
