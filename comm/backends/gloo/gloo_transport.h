// Gloo's transport, with a way to end every wait in it. Gloo's own, a wait that times out and so breaks all
// pairs, does not reach a send that was posted on a pair that had broken before: that one would wait for its
// whole time (seen). So all buffers are known here, and an abort ends the waits of each.
#pragma once

#include <gloo/transport/context.h>

#include <memory>
#include <mutex>
#include <unordered_set>

namespace trainrun::comm {

class GlooTransport final : public gloo::transport::Context {
 public:
  explicit GlooTransport(std::shared_ptr<gloo::transport::Context> inner);

  std::unique_ptr<gloo::transport::Pair>& getPair(int peer) override { return inner_->getPair(peer); }
  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override { return inner_->createPair(peer); }
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* ptr, size_t bytes) override;
  // The base's is not virtual, and would not reach the inner one.
  void set_timeout(std::chrono::milliseconds timeout);
  // From any thread: waits that run end with an exception, and all that come later.
  void abort();

 private:
  class Buffer;
  struct Live {
    std::mutex mutex;
    bool aborted = false;
    std::unordered_set<Buffer*> buffers;
  };
  std::shared_ptr<gloo::transport::Context> inner_;
  std::shared_ptr<Live> live_;
};

}  // namespace trainrun::comm
