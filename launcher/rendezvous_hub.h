// Where streams of all hosts' doors meet the rendezvous service: gives each a connection number and carries
// bytes. A decision about an answer is the service's; nothing here understands a byte of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launcher/core/placement.h"
#include "launcher/io/loop.h"
#include "rendezvous/service.h"

namespace trainrun {

class RendezvousHub {
 public:
  struct Member {
    core::Seat seat;
    std::string host, address;
  };
  using Send = std::function<void(HostIndex, StreamId, std::string bytes, bool end)>;

  // `key` has 32 bytes.
  RendezvousHub(io::Loop& loop, const std::string& key, Send send);

  void begin(Generation generation, const std::vector<Member>& members);
  void end(Generation generation, const std::string& reason);
  void member_lost(Generation generation, Rank rank, const std::string& host, const std::string& how);

  void opened(HostIndex host, StreamId stream);
  void received(HostIndex host, StreamId stream, const std::string& bytes, bool end);
  void host_gone(HostIndex host);

 private:
  using Place = std::pair<HostIndex, StreamId>;
  void arm();

  Send send_;
  rendezvous::Service service_;
  std::map<Place, std::uint32_t> connections_;
  std::map<std::uint32_t, Place> places_;
  std::uint32_t last_connection_ = 0;
  io::Timer timer_;
};

}  // namespace trainrun
