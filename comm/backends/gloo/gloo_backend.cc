#include "comm/backends/gloo/gloo_backend.h"

#include <fmt/format.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/broadcast.h>
#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "comm/backends/gloo/close_on_exec.h"
#include "comm/backends/gloo/gloo_transport.h"
#include "comm/backends/gloo/neighbours.h"
#include "comm/quiet_threads.h"

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

// Gloo's own way connects everybody with everybody, and reads about 1.5 N^2 keys of a store for it; this one
// connects neighbours, with one blob of each. Gloo's operations over it must be those that use no other pair:
// the rings, and the broadcast, whose tree has edges of powers of two from any root.
struct GlooBackend::Mesh final : gloo::Context {
  Mesh(int own_rank, int world_size)
      : gloo::Context(own_rank, world_size), neighbours(neighbours_of(own_rank, world_size)) {}

  void listen(const std::string& address) {
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
    transport_->set_timeout(getTimeout());
    transportContext_ = transport_;
    for (const int peer : neighbours) {
      const auto bytes = transportContext_->createPair(peer)->address().bytes();
      ends_.push_back(gloo::transport::tcp::Address(bytes).getSockaddr());
      address_size = bytes.size();
      blob.append(bytes.data(), bytes.size());
    }
  }

  // Throws. In a blob the addresses stand in the order of the rank's neighbours.
  void connect(const std::vector<std::string>& blobs, Deadline deadline) {
    setTimeout(left_until(deadline));
    transport_->set_timeout(left_until(deadline));
    for (std::size_t i = 0; i < neighbours.size(); ++i) {
      const auto theirs = neighbours_of(neighbours[i], size);
      const auto index =
          static_cast<std::size_t>(std::find(theirs.begin(), theirs.end(), rank) - theirs.begin());
      const auto* begin = blobs[i].data() + index * address_size;
      const std::vector<char> address(begin, begin + address_size);
      ends_.push_back(gloo::transport::tcp::Address(address).getSockaddr());
      transportContext_->getPair(neighbours[i])->connect(address);
    }
    close_connections_on_exec(ends_);
  }

  void abort() { transport_->abort(); }

  const std::vector<int> neighbours;
  std::string blob;
  std::size_t address_size = 0;

 private:
  std::shared_ptr<GlooTransport> transport_;
  std::vector<sockaddr_storage> ends_;  // of the connections, where one side or the other has listened
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

const std::vector<int>& GlooBackend::neighbours() const { return mesh_->neighbours; }

Moved GlooBackend::connect(const std::vector<std::string>& blobs, Deadline deadline) {
  if (blobs.size() != mesh_->neighbours.size())
    return tl::unexpected(Broken{"there is not one address for each neighbour"});
  for (std::size_t i = 0; i < blobs.size(); ++i)
    if (blobs[i].size() != mesh_->address_size * neighbours_of(mesh_->neighbours[i], mesh_->size).size())
      return tl::unexpected(Broken{fmt::format("rank {} has another build of Gloo", mesh_->neighbours[i])});
  return guarded([&] { mesh_->connect(blobs, deadline); });
}

// Dissemination in log2(size) rounds: in round k each rank tells the one 2^k after it what it knows of the
// 2^k ranks up to itself. After the last round everybody has heard of everybody, and knows the same answer
// but for which pair it names. Payload moves only after all agree, since Gloo ends the process on a wrong
// size.
Performed GlooBackend::agree(const Descriptor& mine, Deadline deadline) {
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

Performed GlooBackend::perform(const Descriptor& what, const Transfer& data, Deadline deadline) {
  auto agreed = agree(what, deadline);
  if (!agreed || *agreed || data.count == 0) return agreed;
  Moved moved;
  switch (what.call) {
    case Call::allreduce:
      moved = allreduce(data, what.op, deadline);
      break;
    case Call::broadcast:
      moved = broadcast(data, what.root, deadline);
      break;
    case Call::allgather:
      moved = allgather(data, deadline);
      break;
    case Call::barrier:  // to agree is to have met
      break;
  }
  if (!moved) return tl::unexpected(moved.error());
  return std::nullopt;
}

Moved GlooBackend::allreduce(const Transfer& data, trc_op op, Deadline deadline) {
  const auto moved = guarded([&] {
    gloo::AllreduceOptions options(std::static_pointer_cast<gloo::Context>(mesh_));
    const auto width = size_of(data.dtype);
    const auto run = [&]<class Element>(Element) {
      // Gloo does not write to the input, but has no type for that.
      options.setInput(static_cast<Element*>(const_cast<void*>(data.in)), data.count);
      options.setOutput(static_cast<Element*>(data.out), data.count);
    };
    if (width == 1) run(std::uint8_t{});
    if (width == 4) run(std::uint32_t{});
    if (width == 8) run(std::uint64_t{});
    options.setReduceFunction(reduce_kernel(data.dtype, op));
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setTimeout(left_until(deadline));
    gloo::allreduce(options);
  });
  if (moved && op == TRC_MEAN) finish_mean(data.out, data.count, data.dtype, mesh_->size);
  return moved;
}

Moved GlooBackend::broadcast(const Transfer& data, int root, Deadline deadline) {
  return guarded([&] {
    gloo::BroadcastOptions options(std::static_pointer_cast<gloo::Context>(mesh_));
    options.setOutput(static_cast<char*>(data.out), data.count * size_of(data.dtype));
    options.setRoot(root);
    options.setTimeout(left_until(deadline));
    gloo::broadcast(options);
  });
}

Moved GlooBackend::allgather(const Transfer& data, Deadline deadline) {
  return guarded([&] {
    gloo::AllgatherOptions options(std::static_pointer_cast<gloo::Context>(mesh_));
    const auto bytes = data.count * size_of(data.dtype);
    options.setInput(static_cast<char*>(const_cast<void*>(data.in)), bytes);
    options.setOutput(static_cast<char*>(data.out), bytes * static_cast<std::size_t>(mesh_->size));
    options.setTimeout(left_until(deadline));
    gloo::allgather(options);
  });
}

void GlooBackend::abort() {
  static_cast<void>(guarded([&] { mesh_->abort(); }));  // the time-out that it is made of is thrown as well
}

}  // namespace trainrun::comm
