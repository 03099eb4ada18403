// Operations whose data comes with the agreement: each rank has what all gave, and takes its own part of it.
#pragma once

#include <cstddef>

#include "comm/backends/backend.h"
#include "comm/backends/gloo/gloo_agreement.h"

namespace trainrun::comm {

// What each of `size` ranks gives to all in such an operation; 0: it is none, since it is too large or gives
// more to some than to others.
std::size_t small_gift(const Descriptor& what, int size);
// After all have agreed on it.
void take_small(const Descriptor& what, const Transfer& data, int rank, int size, const GlooAgreement& all);

}  // namespace trainrun::comm
