#include "comm/backends/gloo/gloo_small.h"

#include <cstring>
#include <vector>

namespace trainrun::comm {
namespace {

// Of what all ranks give together, where most of it is of no use to most ranks.
constexpr std::size_t few_need_it = std::size_t{32} << 10;
static_assert(few_need_it <= GlooAgreement::room);

}  // namespace

std::size_t small_gift(const Descriptor& what, int size) {
  std::size_t blocks = 0, most = few_need_it;
  switch (what.call) {
    case Call::allreduce:
    case Call::reduce:
    case Call::allgather:
    case Call::alltoallv_plan:
      blocks = 1;
      most = GlooAgreement::room;
      break;
    case Call::broadcast:
    case Call::send:
    case Call::gather:
      blocks = 1;
      break;
    case Call::reduce_scatter:
    case Call::scatter:
    case Call::alltoall:
      blocks = static_cast<std::size_t>(size);
      break;
    case Call::allgatherv:
    case Call::alltoallv:
    case Call::barrier:
    case Call::join:
    case Call::finalize:
    case Call::settle:
      return 0;
  }
  const auto unit = blocks * size_of(what.dtype);
  return what.count <= most / (unit * static_cast<std::size_t>(size)) ? what.count * unit : 0;
}

void take_small(const Descriptor& what, const Transfer& data, int rank, int size, const GlooAgreement& all) {
  const auto block = what.count * size_of(what.dtype);
  auto* const out = static_cast<char*>(data.out);
  const auto own = static_cast<std::size_t>(rank) * block;
  const auto reduce = [&](std::size_t offset) {
    std::vector<const void*> sources;
    for (int from = 0; from < size; ++from) sources.push_back(all.given_by(from) + offset);
    reduce_all(reduction_of(what, size), out, sources.data(), what.count);
  };
  const auto take_all = [&](std::size_t offset) {
    for (int from = 0; from < size; ++from)
      std::memcpy(out + static_cast<std::size_t>(from) * block, all.given_by(from) + offset, block);
  };
  switch (what.call) {
    case Call::allreduce:
      return reduce(0);
    case Call::reduce:
      return rank == what.root ? reduce(0) : void();
    case Call::reduce_scatter:
      return reduce(own);
    case Call::broadcast:
    case Call::send:
      if (rank != what.root) std::memcpy(out, all.given_by(what.root), block);
      return;
    case Call::allgather:
    case Call::alltoallv_plan:
      return take_all(0);
    case Call::gather:
      return rank == what.root ? take_all(0) : void();
    case Call::scatter:
      std::memcpy(out, all.given_by(what.root) + own, block);
      return;
    case Call::alltoall:
      return take_all(own);
    case Call::allgatherv:
    case Call::alltoallv:
    case Call::barrier:
    case Call::join:
    case Call::finalize:
    case Call::settle:
      return;
  }
}

}  // namespace trainrun::comm
