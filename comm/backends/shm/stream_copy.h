// Copies into memory that is so large that nobody reads it from a cache soon: what is written goes past the
// caches, so its lines need not be fetched first, and the pieces that all ranks work on stay there.
#pragma once

#include <cstddef>

namespace trainrun::comm {

// From so many bytes of one operation on it pays.
inline constexpr std::size_t stream_from = std::size_t{4} << 20;

void stream_copy(void* to, const void* from, std::size_t bytes);

}  // namespace trainrun::comm
