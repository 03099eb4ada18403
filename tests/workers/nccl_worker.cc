// A rank with groups on a device, by the C interface. Modes:
//   ids [RANK...]   ids of one communicator of these ranks (of all), as a number
//   group           makes a group and says so
//   ops             every operation on a device group against what it must give
//   lists           lists of tensors, the same way
//   list            one list, to see it fail
//   steps N         N allreduces with a barrier after each
//   elastic N       the same, going on in the next generation
// Buffers are the host's, so it needs the fake, or memory that devices can reach.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "nccl_worker.h"
#include "trainrun_comm.hpp"
#include "trainrun_elastic.hpp"

namespace comm = trainrun::comm;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

int failed() {
  trc_error_info info{};
  info.struct_size = sizeof info;
  trc_last_error(&info);
  say(std::string("failed ") + trc_status_name(static_cast<trc_status>(info.status)) + " culprit " +
      std::to_string(info.culprit) + ": " + info.message);
  return 3;
}

int wrong(const char* what) {
  say(std::string("wrong ") + what);
  return 1;
}

namespace {

int ids(trc_world* world, int argc, char** argv) {
  std::vector<int> ranks;
  for (int i = 0; i < argc; ++i) ranks.push_back(std::atoi(argv[i]));
  const auto count =
      trc_nccl_id_count(ranks.empty() ? static_cast<std::size_t>(trc_size(world)) : ranks.size());
  std::vector<trc_nccl_id> made(count);
  if (trc_nccl_ids(world, ranks.empty() ? nullptr : ranks.data(), ranks.size(), made.data(), count) != TRC_OK)
    return failed();
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const auto& id : made)
    for (const char byte : id.internal) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  say("id " + std::to_string(hash));
  return 0;
}

int all_operations(trc_group* group, int rank, int size) {
  const auto n = static_cast<std::size_t>(size);
  const auto me = static_cast<std::size_t>(rank);
  constexpr std::size_t count = 1000;
  const auto value = [&](std::size_t of, std::size_t i) { return static_cast<float>(of * 7 + i % 13); };
  std::vector<float> mine(count), all(n * count), got(n * count);
  for (std::size_t i = 0; i < count; ++i) mine[i] = value(me, i);
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t i = 0; i < count; ++i) all[r * count + i] = value(r, i);
  const auto done = [&](trc_status status) { return status == TRC_OK && trc_barrier(group) == TRC_OK; };

  std::vector<float> out(count);
  if (!done(trc_allreduce(group, mine.data(), out.data(), count, TRC_F32, TRC_SUM))) return failed();
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (std::size_t r = 0; r < n; ++r) sum += value(r, i);
    if (out[i] != sum) return wrong("sum");
  }
  if (!done(trc_allreduce(group, mine.data(), out.data(), count, TRC_F32, TRC_MAX))) return failed();
  if (out[5] != value(n - 1, 5)) return wrong("max");
  if (!done(trc_reduce(group, mine.data(), out.data(), count, TRC_F32, TRC_MIN, size - 1))) return failed();
  if (rank == size - 1 && out[5] != value(0, 5)) return wrong("reduce");
  out = mine;
  if (!done(trc_broadcast(group, out.data(), count, TRC_F32, size - 1))) return failed();
  if (out[9] != value(n - 1, 9)) return wrong("broadcast");
  if (!done(trc_allgather(group, mine.data(), got.data(), count, TRC_F32))) return failed();
  if (got != all) return wrong("allgather");
  if (!done(trc_reduce_scatter(group, all.data(), out.data(), count, TRC_F32, TRC_SUM))) return failed();
  if (out[3] != static_cast<float>(size) * value(me, 3)) return wrong("reduce_scatter");
  std::fill(got.begin(), got.end(), 0.0F);
  if (!done(trc_gather(group, mine.data(), got.data(), count, TRC_F32, 0))) return failed();
  if (rank == 0 && got != all) return wrong("gather");
  if (!done(trc_scatter(group, all.data(), out.data(), count, TRC_F32, 0))) return failed();
  if (out != mine) return wrong("scatter");
  if (!done(trc_alltoall(group, all.data(), got.data(), count, TRC_F32))) return failed();
  for (std::size_t r = 0; r < n; ++r)
    if (got[r * count + 4] != value(me, 4)) return wrong("alltoall");
  std::vector<std::uint64_t> counts(n);
  for (std::size_t r = 0; r < n; ++r) counts[r] = r + 1;
  if (!done(trc_allgatherv(group, mine.data(), got.data(), counts.data(), TRC_F32))) return failed();
  for (std::size_t r = 0, at = 0; r < n; at += counts[r++])
    if (got[at + r] != value(r, r)) return wrong("allgatherv");
  std::vector<std::uint64_t> gives(n), gets(n);
  std::vector<float> given, taken;
  for (std::size_t r = 0; r < n; ++r) {
    gives[r] = (me + 2 * r) % 3;
    gets[r] = (r + 2 * me) % 3;
    given.insert(given.end(), gives[r], value(me, r));
    taken.insert(taken.end(), gets[r], value(r, me));
  }
  std::vector<float> came(taken.size(), -1.0F);
  if (!done(trc_alltoallv(group, given.data(), gives.data(), came.data(), gets.data(), TRC_F32)))
    return failed();
  if (came != taken) return wrong("alltoallv");
  if (size > 1) {
    if (rank == 0 && trc_send(group, mine.data(), count, TRC_F32, size - 1) != TRC_OK) return failed();
    if (rank == size - 1 && trc_recv(group, out.data(), count, TRC_F32, 0) != TRC_OK) return failed();
    if (!done(TRC_OK)) return failed();
    if (rank == size - 1 && out[8] != value(0, 8)) return wrong("send");
  }
  if (trc_allreduce(group, mine.data(), out.data(), count, TRC_F32, TRC_BAND) != TRC_INVALID)
    return wrong("bits of floats");
  if (trc_allreduce(group, mine.data(), out.data(), count, TRC_I32, TRC_BAND) != TRC_UNSUPPORTED)
    return wrong("refusal");
  if (trc_nccl_use_stream(group, &out) != TRC_OK) return failed();
  if (!done(trc_allreduce(group, mine.data(), out.data(), count, TRC_F32, TRC_MEAN))) return failed();
  say("all operations are right");
  return 0;
}

int steps(trc_group* group, int count) {
  std::vector<std::int32_t> one(1000, 1), sum(1000);
  for (int step = 0; step < count; ++step) {
    if (trc_allreduce(group, one.data(), sum.data(), sum.size(), TRC_I32, TRC_SUM) != TRC_OK) return failed();
    if (trc_barrier(group) != TRC_OK) return failed();
    if (sum.front() != trc_group_size(group)) return wrong("sum");
    if (step == 0) say("first step");
  }
  return 0;
}

int elastic(std::int64_t count) {
  comm::elastic::State state;
  std::int64_t step = 0;
  state.value("step", step);
  try {
    const auto end = comm::elastic::run(state, [&](comm::World& world) {
      const auto group = comm::nccl::group(world, 0).value();
      for (; step < count; ++step) {
        std::int32_t sum = 1;
        float ranks = 1;
        const trc_nccl_tensor list{&ranks, &ranks, 1, TRC_F32};
        group.allreduce(std::span(&sum, 1));
        comm::nccl::use_stream(group, nullptr);
        comm::nccl::allreduce_list(group, {&list, 1}, TRC_BF16);
        group.barrier();
        if (sum != world.size() || static_cast<int>(ranks) != sum) throw std::runtime_error("wrong sum");
        state.commit(world);
      }
      say("generation " + std::to_string(world.generation()) + " finished with " +
          std::to_string(world.size()));
    });
    return end == comm::elastic::End::removed ? 4 : 0;
  } catch (const comm::Error& error) {
    say(std::string("failed ") + trc_status_name(error.status) + ": " + error.what());
    return 3;
  }
}

int in_group(trc_world* world, const std::string& mode, int number) {
  trc_group* group = nullptr;
  if (trc_nccl_group_create(world, nullptr, 0, 0, nullptr, &group) != TRC_OK) return failed();
  say("a group of " + std::to_string(trc_group_size(group)));
  const int rc = mode == "ops"     ? all_operations(group, trc_rank(world), trc_size(world))
                 : mode == "steps" ? steps(group, number)
                 : mode == "list"  ? one_list(group)
                 : mode == "lists" ? lists(group, trc_world_group(world), trc_rank(world), trc_size(world))
                                   : 0;
  if (rc != 0) return rc;
  return trc_group_free(group) == TRC_OK ? 0 : failed();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? std::atoi(argv[2]) : 1;
  if (mode == "elastic") return elastic(number);
  trc_world* world = nullptr;
  if (trc_world_init(nullptr, &world) != TRC_OK) return failed();
  const int rc = mode == "ids" ? ids(world, argc - 2, argv + 2) : in_group(world, mode, number);
  if (rc == 0 && trc_world_finalize(world) != TRC_OK) return failed();
  trc_world_free(world);
  return rc;
}
