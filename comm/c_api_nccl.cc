// The C interface of groups on devices.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "comm/backends/nccl/library.h"
#include "comm/c_handles.h"
#include "comm/host_report.h"
#include "comm/trainrun_nccl.h"
#include "rendezvous/protocol.h"

using trainrun::comm::fail;
using trainrun::comm::guarded;
using trainrun::comm::hand_out;
using trainrun::comm::invalid;
using trainrun::comm::Lanes;
using trainrun::comm::Outcome;
using trainrun::comm::Tensor;

namespace {

thread_local std::string report;  // given out last to this thread

Outcome<std::vector<std::uint32_t>> ranks_of(const trc_world* world, const int* ranks, std::size_t count) {
  std::vector<std::uint32_t> all(count);
  if (ranks == nullptr) {
    all.resize(world->world->members().size);
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }
  if (std::any_of(ranks, ranks + count, [](int rank) { return rank < 0; }))
    return fail(TRC_INVALID, "a rank below 0 in a group");
  std::copy(ranks, ranks + count, all.begin());
  return all;
}

}  // namespace

size_t trc_nccl_id_count(size_t ranks) {
  return ranks > UINT32_MAX ? 0 : trainrun::rendezvous::nccl_id_count(static_cast<std::uint32_t>(ranks));
}

trc_status trc_nccl_ids(trc_world* world, const int* ranks, size_t count, trc_nccl_id* ids, size_t room) {
  if (world == nullptr || ids == nullptr || (ranks == nullptr && count > 0))
    return invalid("trc_nccl_ids needs a world, ranks and a place for the ids");
  return guarded(world->group, [&]() -> Outcome<void> {
    auto members = ranks_of(world, ranks, count);
    if (!members) return tl::unexpected(members.error());
    if (room < trc_nccl_id_count(members->size())) return fail(TRC_INVALID, "there is no room for the ids");
    const auto made = world->world->nccl_ids(std::move(*members));
    if (!made) return tl::unexpected(made.error());
    for (std::size_t i = 0; i < made->size(); ++i)
      std::memcpy(ids[i].internal, (*made)[i].bytes.data(), sizeof ids[i].internal);
    return {};
  });
}

trc_status trc_nccl_group_create(trc_world* world, const int* ranks, size_t count, int device, void* stream,
                                 trc_group** group) {
  if (world == nullptr || group == nullptr || (ranks == nullptr && count > 0))
    return invalid("trc_nccl_group_create needs a world, ranks and a place for the group");
  *group = nullptr;
  return guarded(world->group, [&]() -> Outcome<void> {
    auto members = ranks_of(world, ranks, count);
    if (!members) return tl::unexpected(members.error());
    return hand_out(world->world->make_device_group(std::move(*members), device, stream), world, group);
  });
}

trc_status trc_nccl_beside(trc_world* world, trc_group* of, int giver, int taker, int device, void* stream,
                           trc_group** group) {
  if (world == nullptr || group == nullptr)
    return invalid("trc_nccl_beside needs a world and a place for the group");
  *group = nullptr;
  return guarded(world->group, [&]() -> Outcome<void> {
    const auto& host = *(of == nullptr ? world->group : *of).group;
    auto ranks = host.world_ranks();
    if (ranks.empty()) ranks = *ranks_of(world, nullptr, 0);
    auto purpose = fmt::format("beside {}", host.name());
    if (giver != taker) {
      const auto size = static_cast<int>(ranks.size());
      if (giver < 0 || taker < 0 || giver >= size || taker >= size)
        return fail(TRC_INVALID, fmt::format("there are no ranks {} and {} among {}", giver, taker, size));
      purpose += fmt::format(" from {} to {}", giver, taker);
      ranks = {ranks[static_cast<std::size_t>(giver)], ranks[static_cast<std::size_t>(taker)]};
    }
    return hand_out(world->world->make_device_group(std::move(ranks), device, stream, purpose), world, group);
  });
}

trc_status trc_nccl_use_stream(trc_group* group, void* stream) {
  if (group == nullptr) return invalid("a stream for no group");
  return guarded(*group, [&]() -> Outcome<void> {
    if (!group->group->use_stream(stream)) return fail(TRC_INVALID, "the group is on no device");
    return {};
  });
}

trc_status trc_nccl_wait(trc_group* group, void* event) {
  if (group == nullptr || event == nullptr) return invalid("trc_nccl_wait needs a group and an event");
  return guarded(*group, [&] { return group->group->settle(event); });
}

trc_status trc_nccl_allreduce_list(trc_group* group, const trc_nccl_tensor* tensors, size_t count,
                                   trc_dtype wire, trc_op op, double before, double after) {
  if (group == nullptr || (tensors == nullptr && count > 0))
    return invalid("trc_nccl_allreduce_list needs a group and tensors");
  return guarded(*group, [&] {
    std::vector<Tensor> list;
    for (const auto& one : std::span(tensors, count)) list.push_back({one.in, one.out, one.count, one.dtype});
    group->lanes->drain(Lanes::all_members);
    return group->group->allreduce_list(list, wire, op, {before, after});
  });
}

trc_status trc_nccl_look_at(const char* path) {
  if (path == nullptr) return invalid("trc_nccl_look_at needs a path");
  return guarded([&]() -> Outcome<void> {
    trainrun::comm::nccl::look_at_wheel(path);
    return {};
  });
}

const char* trc_describe_host(int json) {
  const auto told = guarded([&]() -> Outcome<void> {
    report = trainrun::comm::host_report(json != 0);
    return {};
  });
  return told == TRC_OK ? report.c_str() : nullptr;
}
