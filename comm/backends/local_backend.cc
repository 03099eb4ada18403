#include "comm/backends/local_backend.h"

#include <cstring>

namespace trainrun::comm {

Performed LocalBackend::perform(const Descriptor& what, const Transfer& data, Deadline) {
  if (over_) return tl::unexpected(Broken{"the generation is over"});
  const auto count = data.counts.empty() ? what.count : data.counts.front();
  if (what.call == Call::allreduce || what.call == Call::reduce || what.call == Call::reduce_scatter) {
    reduce_all(reduction_of(what, 1), data.out, &data.in, count);
    return std::nullopt;
  }
  // Any other operation of one rank gives what it takes.
  const auto bytes = count * size_of(what.dtype);
  if (bytes > 0 && data.in != nullptr && data.in != data.out) std::memmove(data.out, data.in, bytes);
  return std::nullopt;
}

}  // namespace trainrun::comm
