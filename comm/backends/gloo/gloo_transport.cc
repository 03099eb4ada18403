#include "comm/backends/gloo/gloo_transport.h"

#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>

#include <stdexcept>
#include <utility>
#include <vector>

namespace trainrun::comm {

using gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;

class GlooTransport::Buffer final : public UnboundBuffer {
 public:
  Buffer(std::unique_ptr<UnboundBuffer> inner, std::shared_ptr<Live> live)
      : UnboundBuffer(inner->ptr, inner->size), inner_(std::move(inner)), live_(std::move(live)) {
    const std::lock_guard lock(live_->mutex);
    if (live_->aborted) inner_->abortWaitRecv(), inner_->abortWaitSend();
    live_->buffers.insert(this);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() override {
    const std::lock_guard lock(live_->mutex);
    live_->buffers.erase(this);
  }

  // Gloo's collectives do not look at the answer, which is false after an abort.
  bool waitRecv(int* rank, milliseconds timeout) override {
    return ended_well(inner_->waitRecv(rank, timeout));
  }
  bool waitSend(int* rank, milliseconds timeout) override {
    return ended_well(inner_->waitSend(rank, timeout));
  }
  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }
  void send(int to, uint64_t slot, size_t offset, size_t bytes) override {
    inner_->send(to, slot, offset, bytes);
  }
  void recv(int from, uint64_t slot, size_t offset, size_t bytes) override {
    inner_->recv(from, slot, offset, bytes);
  }
  void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) override {
    inner_->recv(std::move(from), slot, offset, bytes);
  }

 private:
  static bool ended_well(bool done) {
    if (!done) throw std::runtime_error("aborted");
    return true;
  }

  std::unique_ptr<UnboundBuffer> inner_;
  std::shared_ptr<Live> live_;
};

GlooTransport::GlooTransport(std::shared_ptr<gloo::transport::Context> inner)
    : Context(inner->rank, inner->size), inner_(std::move(inner)), live_(std::make_shared<Live>()) {}

std::unique_ptr<UnboundBuffer> GlooTransport::createUnboundBuffer(void* ptr, size_t bytes) {
  return std::make_unique<Buffer>(inner_->createUnboundBuffer(ptr, bytes), live_);
}

void GlooTransport::set_timeout(milliseconds timeout) {
  setTimeout(timeout);
  inner_->setTimeout(timeout);
}

void GlooTransport::abort() {
  {
    const std::lock_guard lock(live_->mutex);
    live_->aborted = true;
    for (auto* buffer : live_->buffers) {
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
  }
  // Ranks that are still connecting wait on pairs, not on buffers. Closing them from outside would leave them
  // waiting (measured); a wait that times out breaks every pair and wakes whoever waits on one.
  char byte = 0;
  inner_->createUnboundBuffer(&byte, 1)->waitRecv(milliseconds(1));
}

}  // namespace trainrun::comm
