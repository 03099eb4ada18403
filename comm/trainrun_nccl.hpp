// trainrun_nccl for C++20, over trainrun_nccl.h, which says what happens.
//
//   auto group = trainrun::comm::nccl::group(world, device, stream).value();   // of all ranks
//   group.allreduce(std::span(gradients_on_the_device, count));                // enqueued
//   trainrun::comm::nccl::allreduce_list(group, tensors, TRC_BF16, Op::mean);  // of many, cast on the way
//   group.barrier();                                                           // done, on all ranks
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "trainrun_comm.hpp"
#include "trainrun_nccl.h"

namespace trainrun::comm::nccl {

// Of one communicator of these ranks of the world, or of all; each has the bytes of an ncclUniqueId.
inline std::vector<trc_nccl_id> unique_ids(const World& world, std::span<const int> ranks = {}) {
  std::vector<trc_nccl_id> ids(
      trc_nccl_id_count(ranks.empty() ? static_cast<std::size_t>(world.size()) : ranks.size()));
  detail::check(trc_nccl_ids(world.handle(), ranks.empty() ? nullptr : ranks.data(), ranks.size(), ids.data(),
                             ids.size()));
  return ids;
}

// Of these ranks of the world, or of all; nothing on a rank that is none of them. Spans are of the device's
// memory.
inline std::optional<Group> group(const World& world, int device, void* stream = nullptr,
                                  std::span<const int> ranks = {}) {
  trc_group* made = nullptr;
  detail::check(trc_nccl_group_create(world.handle(), ranks.empty() ? nullptr : ranks.data(), ranks.size(),
                                      device, stream, &made));
  return made == nullptr ? std::nullopt : std::optional<Group>(Group(made));
}

inline void use_stream(const Group& group, void* stream) {
  detail::check(trc_nccl_use_stream(group.handle(), stream));
}

// Until the event has happened, a CUevent or cudaEvent_t behind this rank's operations.
inline void wait(const Group& group, void* event) { detail::check(trc_nccl_wait(group.handle(), event)); }

// Of all elements of these tensors of the group's device, which travel as the type `wire`.
inline void allreduce_list(const Group& group, std::span<const trc_nccl_tensor> tensors, trc_dtype wire,
                           Op op = Op::sum, double before = 1, double after = 1) {
  detail::check(trc_nccl_allreduce_list(group.handle(), tensors.data(), tensors.size(), wire,
                                        static_cast<trc_op>(op), before, after));
}

}  // namespace trainrun::comm::nccl
