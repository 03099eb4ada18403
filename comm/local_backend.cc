#include "comm/local_backend.h"

#include <cstring>

namespace trainrun::comm {
namespace {

Moved copy(const void* in, void* out, const Descriptor& what) {
  const auto bytes = what.count * size_of(what.dtype);
  if (in != out && bytes > 0) std::memcpy(out, in, bytes);
  return {};
}

}  // namespace

tl::expected<std::optional<Disagreement>, Broken> LocalBackend::agree(const Descriptor&, Deadline) {
  if (over_) return tl::unexpected(Broken{"the generation is over"});
  return std::nullopt;
}

Moved LocalBackend::allreduce(const void* in, void* out, const Descriptor& what, Deadline) {
  return copy(in, out, what);
}

Moved LocalBackend::allgather(const void* in, void* out, const Descriptor& what, Deadline) {
  return copy(in, out, what);
}

}  // namespace trainrun::comm
