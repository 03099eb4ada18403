// How far the ranks of this host have come to the store of PyTorch's that rank 0 holds on MASTER_PORT. The
// port is theirs and we see no byte of it: the kernel's table of connections tells, looked at every second,
// then every ten and every thirty, until all have met, or for half an hour; for two minutes where no rank has
// loaded PyTorch. Who is quick may meet between two looks, and leaves traces.
//
// Where all have met and rank 0 still has no connection but those of the store, they wait in
// init_process_group for more ranks than there are: the script has set WORLD_SIZE.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "launcher/agent/process_tree.h"
#include "launcher/agent/supervisor.h"
#include "launcher/agent/tcp_table.h"
#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/io/frame_stream.h"
#include "launcher/io/loop.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

class StoreWatch {
 public:
  StoreWatch(io::Loop& loop, io::FrameStream& link,
             std::function<std::vector<Supervisor::Leader>()> ranks_here);

  // A rank was ordered. Of a world of one nothing is looked at; with a store of the launcher's, until one has
  // come to it.
  void ordered(const wire::Start& order);
  // Ranks may have ended, and it is not told yet.
  void ending();
  void drop();

 private:
  void look();
  void look_at(const Supervisor::Leader& rank, const ProcessTree& tree, const std::vector<TcpSocket>& sockets,
               wire::StoreSeen& seen);
  void look_at_host(const ProcessTree& tree, const std::vector<TcpSocket>& sockets, wire::StoreSeen& seen);

  io::FrameStream& link_;
  std::function<std::vector<Supervisor::Leader>()> ranks_here_;
  Generation generation_{};
  std::uint16_t port_ = 0;
  std::size_t size_ = 0;  // of the world
  std::set<WorkerId> expected_, loaded_, met_, hosts_;
  std::set<WorkerId> ours_;  // have loaded trainrun's library: hvd.init() of trainrun.torch needs no store
  std::set<WorkerId> unasking_;  // whose script leaves it unasked to use the CPU
  bool traces_ = false;
  bool own_store_ = false;             // the launcher's, behind a door
  bool own_meeting_ = false;           // a script names a place of its own
  std::optional<Instant> idle_since_;  // all have met, and rank 0 is connected to nobody
  bool host_is_known_ = false;         // it is connected to others as well, or all was said
  int looks_ = 0;
  std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, bool> last_known_{};
  io::Timer timer_;
};

// After so many looks at the ranks of this host; nothing: not again.
std::optional<Duration> next_look(int looks, bool all_met, bool torch_is_here);

}  // namespace trainrun::agent
