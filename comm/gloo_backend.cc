#include "comm/gloo_backend.h"

#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/broadcast.h>
#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "comm/gloo_transport.h"

namespace trainrun::comm {
namespace {

using std::chrono::milliseconds;

// Our own messages use slots that no collective of Gloo uses (its prefixes are small numbers in the top
// byte).
constexpr std::uint64_t agree_slot = std::uint64_t{0x40} << 56;

// Gloo takes 0 as "no limit" in places, so something is always left.
milliseconds left_until(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, milliseconds(1));
}

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

// What travels in agree(): the sender's view of all ranks that it has heard of.
struct View {
  std::uint32_t rank, other_rank;
  Descriptor mine, other;
  std::uint8_t disagree;
};
static_assert(std::is_trivially_copyable_v<View>);

// Runs `work`, which calls Gloo; whatever Gloo throws becomes text.
template <class Work>
Moved guarded(Work work) {
  try {
    work();
    return {};
  } catch (const std::exception& error) {
    return tl::unexpected(Broken{error.what()});
  }
}

}  // namespace

// Gloo's own way to connect reads about 1.5 N^2 keys of a store; this one needs one blob of each rank.
struct GlooBackend::Mesh final : gloo::Context {
  Mesh(int own_rank, int world_size) : gloo::Context(own_rank, world_size) {}

  void listen(const std::string& address) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = address;
    {
      const BatchThreads batch;
      device_ = gloo::transport::tcp::CreateDevice(attributes);
    }
    transport_ = std::make_shared<GlooTransport>(device_->createContext(rank, size));
    transport_->set_timeout(getTimeout());
    transportContext_ = transport_;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const auto bytes = transportContext_->createPair(peer)->address().bytes();
      address_size = bytes.size();
      blob.append(bytes.data(), bytes.size());
    }
  }

  // Throws. In a blob the addresses stand in the order of the peers, without the rank itself.
  void connect(const std::vector<std::string>& blobs, Deadline deadline) {
    setTimeout(left_until(deadline));
    transport_->set_timeout(left_until(deadline));
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const auto index = static_cast<std::size_t>(rank < peer ? rank : rank - 1);
      const auto& theirs = blobs.at(static_cast<std::size_t>(peer));
      const auto* begin = theirs.data() + index * address_size;
      transportContext_->getPair(peer)->connect(std::vector<char>(begin, begin + address_size));
    }
  }

  void abort() { transport_->abort(); }

  std::string blob;
  std::size_t address_size = 0;

 private:
  std::shared_ptr<GlooTransport> transport_;
};

GlooBackend::GlooBackend(std::shared_ptr<Mesh> mesh) : mesh_(std::move(mesh)) {}
GlooBackend::~GlooBackend() = default;

tl::expected<std::unique_ptr<GlooBackend>, Broken> GlooBackend::listen(int rank, int size,
                                                                       const std::string& address) {
  std::unique_ptr<GlooBackend> backend;
  const auto made = guarded([&] {
    auto mesh = std::make_shared<Mesh>(rank, size);
    mesh->listen(address);
    backend = std::unique_ptr<GlooBackend>(new GlooBackend(std::move(mesh)));
  });
  if (!made) return tl::unexpected(made.error());
  return backend;
}

std::string GlooBackend::blob() const { return mesh_->blob; }

Moved GlooBackend::connect(const std::vector<std::string>& blobs, Deadline deadline) {
  for (std::size_t rank = 0; rank < blobs.size(); ++rank)
    if (blobs[rank].size() != mesh_->blob.size())
      return tl::unexpected(Broken{fmt::format("rank {} has another build of Gloo", rank)});
  return guarded([&] { mesh_->connect(blobs, deadline); });
}

// Dissemination in log2(size) rounds: in round k each rank tells the one 2^k after it what it knows of the
// 2^k ranks up to itself. After the last round everybody has heard of everybody, and knows the same answer
// but for which pair it names. Payload moves only after all agree, since Gloo ends the process on a wrong
// size.
tl::expected<std::optional<Disagreement>, Broken> GlooBackend::agree(const Descriptor& mine,
                                                                     Deadline deadline) {
  const int size = mesh_->size;
  const int rank = mesh_->rank;
  View view{};
  view.rank = static_cast<std::uint32_t>(rank);
  view.mine = mine;
  const auto moved = guarded([&] {
    std::uint64_t slot = agree_slot;
    for (int step = 1; step < size; step *= 2, ++slot) {
      View sent = view;
      View heard{};
      const auto out = mesh_->createUnboundBuffer(&sent, sizeof sent);
      const auto in = mesh_->createUnboundBuffer(&heard, sizeof heard);
      in->recv((rank + size - step % size) % size, slot);
      out->send((rank + step) % size, slot);
      in->waitRecv(left_until(deadline));
      out->waitSend(left_until(deadline));
      if (view.disagree == 0 && heard.disagree != 0) {
        view = heard;
      } else if (view.disagree == 0 && !(heard.mine == mine)) {
        view.disagree = 1;
        view.other_rank = heard.rank;
        view.other = heard.mine;
      }
    }
  });
  if (!moved) return tl::unexpected(moved.error());
  if (view.disagree == 0) return std::nullopt;
  return Disagreement{view.rank, view.other_rank, view.mine, view.other};
}

Moved GlooBackend::allreduce(const void* in, void* out, const Descriptor& what, Deadline deadline) {
  return guarded([&] {
    gloo::AllreduceOptions options(std::static_pointer_cast<gloo::Context>(mesh_));
    const auto width = size_of(what.dtype);
    const auto run = [&]<class Element>(Element) {
      // Gloo does not write to the input, but has no type for that.
      options.setInput(static_cast<Element*>(const_cast<void*>(in)), what.count);
      options.setOutput(static_cast<Element*>(out), what.count);
    };
    if (width == 1) run(std::uint8_t{});
    if (width == 4) run(std::uint32_t{});
    if (width == 8) run(std::uint64_t{});
    options.setReduceFunction(reduce_kernel(what.dtype, what.op));
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setTimeout(left_until(deadline));
    gloo::allreduce(options);
  });
}

Moved GlooBackend::broadcast(void* data, const Descriptor& what, Deadline deadline) {
  return guarded([&] {
    gloo::BroadcastOptions options(std::static_pointer_cast<gloo::Context>(mesh_));
    options.setOutput(static_cast<char*>(data), what.count * size_of(what.dtype));
    options.setRoot(what.root);
    options.setTimeout(left_until(deadline));
    gloo::broadcast(options);
  });
}

Moved GlooBackend::allgather(const void* in, void* out, const Descriptor& what, Deadline deadline) {
  return guarded([&] {
    gloo::AllgatherOptions options(std::static_pointer_cast<gloo::Context>(mesh_));
    const auto bytes = what.count * size_of(what.dtype);
    options.setInput(static_cast<char*>(const_cast<void*>(in)), bytes);
    options.setOutput(static_cast<char*>(out), bytes * static_cast<std::size_t>(mesh_->size));
    options.setTimeout(left_until(deadline));
    gloo::allgather(options);
  });
}

void GlooBackend::abort() {
  static_cast<void>(guarded([&] { mesh_->abort(); }));  // the time-out that it is made of is thrown as well
}

}  // namespace trainrun::comm
