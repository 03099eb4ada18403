// Carries notices to ranks of elastic Horovod programs: each is a stream that the launcher opens, through the
// Link of the rank's host, towards the port that the rank listens on. What is said and when is
// HorovodNotices' decision.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launcher/io/loop.h"
#include "launcher/wire/messages.h"
#include "rendezvous/adapters/horovod_notices.h"

namespace trainrun {

class HorovodNotifier {
 public:
  struct Out {
    std::function<void(HostIndex, const wire::OpenStream&)> open;
    std::function<void(HostIndex, StreamId, std::string bytes, bool end)> send;
    // By no address could it be told what changes; in a later turn of the loop.
    std::function<void(WorkerId, const std::string& why)> failed;
  };
  HorovodNotifier(io::Loop& loop, Out out);

  // Of a world: its workers by rank, and where they are.
  void begin(const std::vector<std::pair<WorkerId, HostIndex>>& world);
  // What a worker has written down of its notification service.
  void listens(WorkerId worker, const std::string& value);
  void announce(bool hosts_leave);
  void interrupted();
  // Of streams of the launcher's alone.
  void received(HostIndex host, StreamId stream, const std::string& bytes, bool end);
  void refused(HostIndex host, const wire::StreamRefused& answer);
  void host_gone(HostIndex host);

 private:
  void arm();

  Out out_;
  rendezvous::HorovodNotices notices_;
  std::map<WorkerId, HostIndex> homes_;
  std::map<std::uint32_t, HostIndex> attempts_;  // under way
  io::Timer timer_;
};

}  // namespace trainrun
