// Gloo's descriptors, which it gives to nobody: they are found among all of the process by what they are.
#pragma once

#include <sys/socket.h>

#include <set>
#include <vector>

namespace trainrun::comm {

// The epoll sets that this process has now.
std::set<int> polls();
// Those that have come since are closed when a program is executed: a helper that outlives its rank would
// else keep what the rank had, and the others could not see that it has died.
void close_new_polls_on_exec(const std::set<int>& before);

// Connections of which one end is among these, closed when a program is executed from now on. One whose
// number was given to something else since is passed over by what is done with them later.
class Connections {
 public:
  Connections() = default;
  explicit Connections(std::vector<sockaddr_storage> ends);

  // Lets the kernel enlarge what each may hold to be sent. Before a message of a bound buffer Gloo asks for
  // room of its size, and so for a tiny one, which the kernel then keeps: whatever else goes over the
  // connection waits for an acknowledgement every 64 KiB (seen: 4 MB in 3 s).
  void free_send_buffers() const;

 private:
  [[nodiscard]] bool is_ours(int fd) const;

  std::vector<sockaddr_storage> ends_;
  std::vector<int> found_;
};

}  // namespace trainrun::comm
