// The C interface over Group.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "comm/c_handles.h"

using trainrun::comm::guarded;
using trainrun::comm::invalid;
using trainrun::comm::Lanes;
using trainrun::comm::Outcome;

namespace {

template <class Work>
trc_status in_group(trc_group* group, Work work, int lane = Lanes::all_members) {
  if (group == nullptr) return invalid("an operation in no group");
  return guarded(*group, [&] {
    group->lanes->drain(lane);
    return work(*group->group);
  });
}

// By this rank: something that it started in it goes on.
bool in_use(const trc_group& group) {
  const auto runs = [](const auto* one) { return one->progress().in_operation(); };
  const auto pairs = group.group->pairs();
  return !group.lanes->idle() || runs(group.group) || std::any_of(pairs.begin(), pairs.end(), runs);
}

}  // namespace

Outcome<void> trainrun::comm::hand_out(const Outcome<Group*>& made, trc_world* world, trc_group** group) {
  if (!made) return tl::unexpected(made.error());
  if (*made == nullptr) return {};
  const std::lock_guard lock(world->mutex);
  world->groups.push_back(
      std::unique_ptr<trc_group>(new trc_group{*made, world->group.generation, world, world->group.home}));
  *group = world->groups.back().get();
  return {};
}

void trc_world::give_back_left() {
  const std::unique_lock alone(giving_back, std::try_to_lock);
  if (!alone) return;
  std::vector<trc_group*> left;
  {
    const std::lock_guard lock(mutex);
    for (const auto& part : groups)
      if (part->left && !in_use(*part)) left.push_back(part.get());
  }
  for (const auto* const part : left) {
    const auto gone = world->leave_group(*part->group);
    if (!gone) return;  // who waits for anything else hears of it there
    if (!*gone) continue;
    const std::lock_guard lock(mutex);
    std::erase_if(groups, [&](const auto& other) { return other.get() == part; });
  }
}

trc_group* trc_world_group(trc_world* world) { return world == nullptr ? nullptr : &world->group; }

trc_status trc_group_create(trc_world* world, const int* ranks, size_t count, trc_group** group) {
  if (world == nullptr || group == nullptr || (ranks == nullptr && count > 0))
    return invalid("trc_group_create needs a world, ranks and a place for the group");
  *group = nullptr;
  return guarded(world->group, [&]() -> Outcome<void> {
    if (std::any_of(ranks, ranks + count, [](int rank) { return rank < 0; }))
      return trainrun::comm::fail(TRC_INVALID, "a rank below 0 in a group");
    world->give_back_left();
    return hand_out(world->world->make_group({ranks, ranks + count}), world, group);
  });
}

trc_status trc_group_free(trc_group* group) {
  if (group == nullptr) return TRC_OK;
  const auto closed = guarded(*group, [&] {
    group->lanes->drain();
    return group->world->world->close_group(*group->group);
  });
  if (closed != TRC_OK) return closed;
  auto& world = *group->world;
  const std::lock_guard lock(world.mutex);
  std::erase_if(world.groups, [&](const auto& other) { return other.get() == group; });
  return TRC_OK;
}

trc_status trc_group_leave(trc_group* group) {
  if (group == nullptr) return TRC_OK;
  return guarded(*group, [&]() -> Outcome<void> {
    auto& world = *group->world;
    if (group == &world.group)
      return trainrun::comm::fail(TRC_INVALID, "the group of all ranks ends with its world");
    if (std::string_view(group->group->backend()) == "nccl")
      return trainrun::comm::fail(TRC_INVALID, "a group on a device is freed by all its members");
    {
      const std::lock_guard lock(world.mutex);
      group->left = true;
    }
    world.give_back_left();
    return {};
  });
}

int trc_group_rank(const trc_group* group) { return group->group->rank(); }
int trc_group_size(const trc_group* group) { return group->group->size(); }

trc_status trc_allreduce(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype,
                         trc_op op) {
  return in_group(group, [&](auto& g) { return g.allreduce(in, out, count, dtype, op); });
}

trc_status trc_allreduce_scaled(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype,
                                trc_op op, double before, double after) {
  return in_group(group, [&](auto& g) { return g.allreduce(in, out, count, dtype, op, {before, after}); });
}

trc_status trc_reduce(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype, trc_op op,
                      int root) {
  return in_group(group, [&](auto& g) { return g.reduce(in, out, count, dtype, op, root); });
}

trc_status trc_reduce_scatter(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype,
                              trc_op op) {
  return in_group(group, [&](auto& g) { return g.reduce_scatter(in, out, count, dtype, op); });
}

trc_status trc_broadcast(trc_group* group, void* data, size_t count, trc_dtype dtype, int root) {
  return in_group(group, [&](auto& g) { return g.broadcast(data, count, dtype, root); });
}

trc_status trc_allgather(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype) {
  return in_group(group, [&](auto& g) { return g.allgather(in, out, count, dtype); });
}

trc_status trc_allgatherv(trc_group* group, const void* in, void* out, const uint64_t* counts,
                          trc_dtype dtype) {
  return in_group(group, [&](auto& g) { return g.allgatherv(in, out, counts, dtype); });
}

trc_status trc_gather(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype, int root) {
  return in_group(group, [&](auto& g) { return g.gather(in, out, count, dtype, root); });
}

trc_status trc_scatter(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype, int root) {
  return in_group(group, [&](auto& g) { return g.scatter(in, out, count, dtype, root); });
}

trc_status trc_alltoall(trc_group* group, const void* in, void* out, size_t count, trc_dtype dtype) {
  return in_group(group, [&](auto& g) { return g.alltoall(in, out, count, dtype); });
}

trc_status trc_alltoallv(trc_group* group, const void* in, const uint64_t* in_counts, void* out,
                         const uint64_t* out_counts, trc_dtype dtype) {
  return in_group(group, [&](auto& g) { return g.alltoallv(in, in_counts, out, out_counts, dtype); });
}

trc_status trc_join(trc_group* group) {
  return in_group(group, [](auto& inside) { return inside.join(); });
}

size_t trc_group_recent(const trc_group* group, trc_operation* operations, size_t room) {
  if (group == nullptr || operations == nullptr || room == 0 || !group->home.here()) return 0;
  const auto stride = operations->struct_size;
  if (stride < sizeof(trc_operation)) return 0;
  const auto recent = group->group->recent();
  const auto count = std::min(room, recent.size());
  auto* at = reinterpret_cast<char*>(operations);
  for (const auto& one : std::span(recent).last(count)) {
    trc_operation told{};
    told.struct_size = stride;
    told.state = static_cast<int32_t>(one.state);
    told.sequence = one.sequence;
    told.bytes = one.bytes;
    told.begun_ns = one.begun.count();
    told.ended_ns = one.ended.count();
    told.dtype = static_cast<int32_t>(one.dtype);
    std::strncpy(told.name, trainrun::comm::name_of(one.call), sizeof told.name - 1);
    std::memcpy(at, &told, sizeof told);
    at += stride;
  }
  return count;
}

trc_status trc_barrier(trc_group* group) {
  return in_group(group, [&](auto& g) { return g.barrier(); });
}

trc_status trc_send(trc_group* group, const void* data, size_t count, trc_dtype dtype, int to) {
  return in_group(
      group, [&](auto& g) { return g.send(data, count, dtype, to); }, Lanes::to(to));
}

trc_status trc_recv(trc_group* group, void* data, size_t count, trc_dtype dtype, int from) {
  return in_group(
      group, [&](auto& g) { return g.receive(data, count, dtype, from); }, Lanes::from(from));
}
