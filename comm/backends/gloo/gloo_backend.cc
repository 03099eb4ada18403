#include "comm/backends/gloo/gloo_backend.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "comm/backends/gloo/gloo_mesh.h"
#include "comm/backends/gloo/gloo_moves.h"
#include "comm/backends/gloo/gloo_small.h"
#include "comm/backends/gloo/neighbours.h"
#include "launcher/base/fault.h"
#include "launcher/base/fd.h"

namespace trainrun::comm {
namespace {

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

// What only one rank has to give, the others need not.
const void* gift_of(const Descriptor& what, const Transfer& data, int rank) {
  const bool from_root =
      what.call == Call::broadcast || what.call == Call::send || what.call == Call::scatter;
  return from_root && rank != what.root ? nullptr : data.in;
}

// Where it gets no socket Gloo says that it finds no address, and where it cannot accept a neighbour both
// wait in silence.
Moved enough_descriptors(std::size_t neighbours) {
  constexpr std::size_t of_device = 4;  // its loop, its wake-up, a listener, who is being accepted
  std::vector<Fd> probes;
  for (std::size_t i = 0; i < neighbours + of_device; ++i) {
    if (!probes.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)))
      return tl::unexpected(
          Broken{fmt::format("no socket: {}; {} more are needed than this process may open; try: ulimit -n",
                             errno_text(errno), neighbours + of_device - i)});
  }
  return {};
}

}  // namespace

GlooBackend::GlooBackend(std::shared_ptr<GlooMesh> mesh) : mesh_(std::move(mesh)), agreement_(*mesh_) {}

// What comes in must not reach the agreement's memory any more when that goes. Not by closing pairs, which
// would take back what is still on its way to ranks that have not read it.
GlooBackend::~GlooBackend() { abort(); }

tl::expected<std::unique_ptr<GlooBackend>, Broken> GlooBackend::listen(int rank, int size,
                                                                       const std::string& address) {
  if (auto enough = enough_descriptors(neighbours_of(rank, size).size()); !enough)
    return tl::unexpected(enough.error());
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

int GlooBackend::connects_with() const { return mesh_->connects_with(); }

Performed GlooBackend::perform(const Descriptor& what, const Transfer& data, Deadline deadline) {
  return perform_part({what, static_cast<std::uint32_t>(mesh_->rank)}, what, data, deadline);
}

// Payload that does not come with the agreement moves only after it, since Gloo ends the process on a wrong
// size.
Performed GlooBackend::perform_part(const Opinion& opinion, const Descriptor& part, const Transfer& data,
                                    Deadline deadline) {
  static_cast<void>(fault::point("comm.come"));
  const auto gift = small_gift(part, mesh_->size);
  std::optional<Disagreement> disagreement;
  const auto agreed =
      guarded([&] { disagreement = agreement_.reach(opinion, gift_of(part, data, mesh_->rank), gift); });
  static_cast<void>(fault::point("comm.past"));
  if (!agreed) return tl::unexpected(agreed.error());
  if (disagreement) return disagreement;
  if (gift > 0)
    take_small(part, data, mesh_->rank, mesh_->size, agreement_);
  else if (const auto moved = move(part, data, deadline); !moved)
    return tl::unexpected(moved.error());
  return std::nullopt;
}

Moved GlooBackend::move(const Descriptor& what, const Transfer& data, Deadline deadline) {
  if (what.count == 0 && data.counts.empty()) return {};
  const GlooMove move{mesh_, what, data, deadline};
  auto moved = guarded([&] {
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
      case Call::join:
      case Call::finalize:
      case Call::settle:
        break;
    }
  });
  if (moved) mesh_->free_send_buffers();
  return moved;
}

void GlooBackend::abort() {
  static_cast<void>(guarded([&] { mesh_->abort(); }));  // the time-out that it is made of is thrown as well
}

}  // namespace trainrun::comm
