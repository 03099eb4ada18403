#include "comm/backends/gloo/gloo_backend.h"

#include <fmt/format.h>
#include <gloo/transport/unbound_buffer.h>

#include <type_traits>
#include <utility>

#include "comm/backends/gloo/gloo_mesh.h"
#include "comm/backends/gloo/gloo_moves.h"
#include "comm/backends/gloo/neighbours.h"
#include "launcher/base/fault.h"

namespace trainrun::comm {
namespace {

// Our own messages use slots that no collective of Gloo uses (its prefixes are small numbers in the top
// byte).
constexpr std::uint64_t agree_slot = std::uint64_t{0x40} << 56;

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

GlooBackend::GlooBackend(std::shared_ptr<GlooMesh> mesh) : mesh_(std::move(mesh)) {}
GlooBackend::~GlooBackend() = default;

tl::expected<std::unique_ptr<GlooBackend>, Broken> GlooBackend::listen(int rank, int size,
                                                                       const std::string& address) {
  std::unique_ptr<GlooBackend> backend;
  const auto made = guarded([&] {
    auto mesh = std::make_shared<GlooMesh>(rank, size);
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
      static_cast<void>(fault::point("comm.wait"));
      in->waitRecv(time_until(deadline));
      out->waitSend(time_until(deadline));
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
  static_cast<void>(fault::point("comm.come"));
  auto agreed = agree(what, deadline);
  static_cast<void>(fault::point("comm.past"));
  if (!agreed || *agreed || (what.count == 0 && data.counts.empty())) return agreed;
  const GlooMove move{mesh_, what, data, deadline};
  const auto moved = guarded([&] {
    switch (what.call) {
      case Call::allreduce:
        return move.allreduce();
      case Call::reduce:
        return move.reduce();
      case Call::reduce_scatter:
        return move.reduce_scatter();
      case Call::broadcast:
      case Call::send:
        return move.broadcast();
      case Call::allgather:
      case Call::allgatherv:
      case Call::alltoallv_plan:
        return move.allgather();
      case Call::gather:
        return move.gather();
      case Call::scatter:
        return move.scatter();
      case Call::alltoall:
      case Call::alltoallv:
        return move.alltoall();
      case Call::barrier:  // to agree is to have met
        break;
    }
  });
  if (!moved) return tl::unexpected(moved.error());
  return std::nullopt;
}

void GlooBackend::abort() {
  static_cast<void>(guarded([&] { mesh_->abort(); }));  // the time-out that it is made of is thrown as well
}

}  // namespace trainrun::comm
