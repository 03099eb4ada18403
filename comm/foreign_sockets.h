// The connections of a group that belongs to another library (PyTorch's Gloo). Its operations wait for ranks
// that will never answer, and it offers nothing to end that. So its connections are found among this
// process's descriptors, by their addresses, and shut down: whoever waits on one is woken with an error,
// whoever else holds a duplicate of it.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/failure.h"

namespace trainrun::comm {

class ForeignSockets {
 public:
  // Numeric HOST:PORT or [HOST]:PORT where the library listens: in this process, and in the other members.
  // A connection is the group's if its own end is one of the first or its far end one of the second.
  Outcome<void> name(const std::vector<std::string>& own, const std::vector<std::string>& peers);
  // From any thread, as often as one likes. First for reading alone: each end then finds its connection
  // closed where it reads, and fails whatever waits there. Gloo forgets a send that fails in its own thread
  // while it answers the far end, and the operation would wait on. `whole`: for writing too, should that not
  // do.
  void shut(bool whole = false) const;

 private:
  using Host = std::array<std::uint8_t, 16>;  // of IPv6; one of IPv4 is mapped into it
  using End = std::pair<Host, std::uint16_t>;
  static Outcome<End> parse(const std::string& text);
  bool ours(int socket) const;

  mutable std::mutex mutex_;
  std::set<End> own_, peers_;
};

}  // namespace trainrun::comm
