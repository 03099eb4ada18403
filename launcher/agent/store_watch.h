// How far the ranks of this host have come to the store of PyTorch's that rank 0 holds on MASTER_PORT. The
// port is theirs and we see no byte of it: the kernel's table of connections tells, looked at every ten
// seconds, later every thirty, until all have met, or for half an hour; for two minutes where no rank has
// loaded PyTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "launcher/agent/supervisor.h"
#include "launcher/base/id.h"
#include "launcher/io/frame_stream.h"
#include "launcher/io/loop.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

class StoreWatch {
 public:
  StoreWatch(io::Loop& loop, io::FrameStream& link,
             std::function<std::vector<Supervisor::Leader>()> ranks_here);

  // A rank was ordered; of a world of one, and of ranks with a store of the launcher's, nothing is looked at.
  void ordered(const wire::Start& order);
  void drop();

 private:
  void look();
  void look_later();

  io::FrameStream& link_;
  std::function<std::vector<Supervisor::Leader>()> ranks_here_;
  Generation generation_{};
  std::uint16_t port_ = 0;
  std::set<WorkerId> expected_, met_;
  int looks_ = 0;
  io::Timer timer_;
};

// After so many looks at the ranks of this host.
bool looks_again(int looks, bool all_met, bool torch_is_here);

// Of the text of /proc/net/tcp or tcp6: sockets that are connected to `port` of any host or listen on it.
std::set<std::uint64_t> sockets_to(std::string_view table, std::uint16_t port);

}  // namespace trainrun::agent
