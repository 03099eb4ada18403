#include "comm/backends/gloo/gloo_mesh.h"

#include <gloo/common/error.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "comm/backends/gloo/neighbours.h"
#include "comm/quiet_threads.h"

namespace trainrun::comm {
namespace {

using std::chrono::milliseconds;

// While this lives, threads that start run under SCHED_BATCH. Gloo's loop thread spins on a lock that an
// operation holds; under the normal policy its wake-up preempts the holder, which costs milliseconds where
// ranks share cores. A policy that cannot be set changes speed alone.
class BatchThreads {
 public:
  BatchThreads() {
    known_ = ::pthread_getschedparam(::pthread_self(), &policy_, &parameters_) == 0 && policy_ == SCHED_OTHER;
    const sched_param batch{};
    if (known_) known_ = ::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &batch) == 0;
  }
  BatchThreads(const BatchThreads&) = delete;
  BatchThreads& operator=(const BatchThreads&) = delete;
  ~BatchThreads() {
    if (known_) static_cast<void>(::pthread_setschedparam(::pthread_self(), policy_, &parameters_));
  }

 private:
  bool known_ = false;
  int policy_ = SCHED_OTHER;
  sched_param parameters_{};
};

}  // namespace

milliseconds time_until(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, milliseconds(1));
}

GlooMesh::GlooMesh(int own_rank, int world_size)
    : gloo::Context(own_rank, world_size), neighbours(neighbours_of(own_rank, world_size)) {}

void GlooMesh::listen(const std::string& address) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = address;
  {
    const BatchThreads batch;
    const QuietThreads quiet;
    const auto before = polls();
    device_ = gloo::transport::tcp::CreateDevice(attributes);
    close_new_polls_on_exec(before);
  }
  transport_ = std::make_shared<GlooTransport>(device_->createContext(rank, size));
  // A connection's own limit would hold for each letter on it; abort() ends those waits, and that for the
  // other side to connect.
  transport_->set_timeout(gloo::kNoTimeout);
  transportContext_ = transport_;
  for (const int peer : neighbours) {
    const auto bytes = transportContext_->createPair(peer)->address().bytes();
    ends_.push_back(gloo::transport::tcp::Address(bytes).getSockaddr());
    address_size = bytes.size();
    blob.append(bytes.data(), bytes.size());
  }
}

void GlooMesh::connect(const std::vector<std::string>& blobs, Deadline deadline) {
  setTimeout(time_until(deadline));
  transport_->set_timeout(time_until(deadline));
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    connects_with_ = neighbours[i];
    const auto theirs = neighbours_of(neighbours[i], size);
    const auto index =
        static_cast<std::size_t>(std::find(theirs.begin(), theirs.end(), rank) - theirs.begin());
    const auto* begin = blobs[i].data() + index * address_size;
    const std::vector<char> address(begin, begin + address_size);
    ends_.push_back(gloo::transport::tcp::Address(address).getSockaddr());
    transportContext_->getPair(neighbours[i])->connect(address);
  }
  connections_ = Connections(ends_);
}

}  // namespace trainrun::comm
