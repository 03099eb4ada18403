// Gloo's connections between neighbours. Not Gloo's own way, which connects everybody with everybody and
// reads about 1.5 N^2 keys of a store for it; with one blob of each neighbour. Gloo's operations over it must
// be those that use no other pair: the ring, and the broadcast, whose tree has edges of powers of two from
// any root.
#pragma once

#include <gloo/context.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/backends/backend.h"
#include "comm/backends/gloo/descriptors.h"
#include "comm/backends/gloo/gloo_transport.h"

namespace trainrun::comm {

// Gloo takes 0 as "no limit" in places, so something is always left.
std::chrono::milliseconds time_until(Deadline deadline);

class GlooMesh final : public gloo::Context {
 public:
  GlooMesh(int own_rank, int world_size);

  // These throw what Gloo throws.
  void listen(const std::string& address);
  // In a blob the addresses stand in the order of the rank's neighbours.
  void connect(const std::vector<std::string>& blobs, Deadline deadline);
  void abort() { transport_->abort(); }
  // Before a message that is longer than its connection's send buffer seems Gloo makes that as large, and the
  // kernel leaves it so. Later ones, much larger, would wait for an acknowledgement of each such piece: to be
  // called after a message that is longer than any before, and after all that Gloo moves.
  void free_send_buffers() const { connections_.free_send_buffers(); }

  // The one that connect() is about, or was when it failed.
  [[nodiscard]] int connects_with() const { return connects_with_; }

  const std::vector<int> neighbours;
  std::string blob;
  std::size_t address_size = 0;

 private:
  int connects_with_ = 0;
  std::shared_ptr<GlooTransport> transport_;
  std::vector<sockaddr_storage> ends_;  // of the connections, where one side or the other has listened
  Connections connections_;
};

}  // namespace trainrun::comm
