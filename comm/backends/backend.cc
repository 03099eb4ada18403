#include "comm/backends/backend.h"

#include <fmt/format.h>

namespace trainrun::comm {
namespace {

std::string scaled(const Descriptor& what) {
  return what.before == 1 && what.after == 1 ? std::string()
                                             : fmt::format(" scaled by {} and {}", what.before, what.after);
}

std::string detail_of(const Descriptor& what, std::span<const std::uint32_t> ranks) {
  const auto elements = fmt::format("{} {}", what.count, name_of(what.dtype));
  const auto root = static_cast<std::size_t>(what.root);
  const auto root_rank = root < ranks.size() ? ranks[root] : static_cast<std::uint32_t>(what.root);
  switch (what.call) {
    case Call::allreduce:
    case Call::reduce_scatter:
      return fmt::format("({} of {}{})", name_of(what.op), elements, scaled(what));
    case Call::reduce:
      return fmt::format("({} of {} to rank {})", name_of(what.op), elements, root_rank);
    case Call::broadcast:
    case Call::scatter:
    case Call::send:
      return fmt::format("({} from rank {})", elements, root_rank);
    case Call::gather:
      return fmt::format("({} to rank {})", elements, root_rank);
    case Call::allgather:
    case Call::allgatherv:
    case Call::alltoall:
      return fmt::format("({})", elements);
    case Call::alltoallv_plan:
    case Call::alltoallv:
      return fmt::format("({})", name_of(what.dtype));
    case Call::barrier:
    case Call::join:
    case Call::finalize:
    case Call::settle:
      break;
  }
  return {};
}

}  // namespace

const char* name_of(Call call) {
  switch (call) {
    case Call::allreduce:
      return "allreduce";
    case Call::broadcast:
      return "broadcast";
    case Call::allgather:
      return "allgather";
    case Call::barrier:
      return "barrier";
    case Call::reduce:
      return "reduce";
    case Call::reduce_scatter:
      return "reduce_scatter";
    case Call::allgatherv:
      return "allgatherv";
    case Call::scatter:
      return "scatter";
    case Call::gather:
      return "gather";
    case Call::alltoall:
      return "alltoall";
    case Call::alltoallv_plan:
    case Call::alltoallv:
      return "alltoallv";
    case Call::send:
      return "send";
    case Call::join:
      return "join";
    case Call::finalize:
      return "finalize";
    case Call::settle:
      return "wait";
  }
  return "?";
}

std::string describe(const Descriptor& what, std::uint32_t member, std::span<const std::uint32_t> ranks) {
  if (what.call == Call::settle) return fmt::format("the device's work up to operation {}", what.sequence);
  const bool receives = what.call == Call::send && member != static_cast<std::uint32_t>(what.root);
  return fmt::format("{}{}{} as operation {}", receives ? "receive" : name_of(what.call),
                     detail_of(what, ranks),
                     what.name == 0 ? "" : fmt::format(" of the name {:06x}", what.name), what.sequence);
}

std::uint64_t shape_of(std::span<const std::uint64_t> counts) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const auto count : counts)
    for (int shift = 0; shift < 64; shift += 8) hash = (hash ^ (count >> shift & 0xff)) * 0x100000001b3;
  return hash;
}

}  // namespace trainrun::comm
