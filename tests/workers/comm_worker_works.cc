// The modes of comm_worker that start operations and do not wait for them.
//   works           every operation; "ok RANK SIZE"
//   works_loop      four allreduces at a time until something fails; "running" after the first ones
//   works_fork      a forked child has no part in what was started; "ok"
//   works_unwaited  the last rank dies while the others end their world without a wait for what they started
//   works_free      rank 0 ends its world while a work runs and one waits; "freed"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "comm_worker.h"
#include "trainrun_work.hpp"

using namespace trainrun::comm;

namespace {

using Ints = std::vector<int>;

Ints numbers(std::size_t count, int first) {
  Ints made(count);
  std::iota(made.begin(), made.end(), first);
  return made;
}

int check(bool good, const char* what, std::size_t count) { return good ? 0 : complain(what, "i32", count); }

// Every kind, all started before the first is waited for.
int every_kind(const World& world, std::size_t count) {
  const auto group = world.group();
  const int rank = world.rank(), size = world.size(), next = (rank + 1) % size,
            last = (rank + size - 1) % size;
  const auto blocks = static_cast<std::size_t>(size) * count;
  const auto first_of = [&](int r) { return 1000 * r; };
  const auto own = numbers(count, first_of(rank));
  const auto all = numbers(blocks, first_of(rank));
  Ints everyone;
  for (int r = 0; r < size; ++r) {
    const auto its = numbers(count, first_of(r));
    everyone.insert(everyone.end(), its.begin(), its.end());
  }
  const std::vector<std::uint64_t> counts(static_cast<std::size_t>(size), count);
  Ints sum = own, reduced(count), share(count), sent = own, gathered(blocks), varied(blocks), at_root(blocks),
       given(count), turned(blocks), turned_varied(blocks), received(count);
  if (rank != 1 % size) sent.assign(count, -1);
  std::vector<trc_call> calls;
  calls.push_back(call_allreduce(std::span(sum)));
  calls.push_back(call_of(TRC_CALL_REDUCE, own.data(), reduced.data(), count));
  calls.push_back(call_of(TRC_CALL_REDUCE_SCATTER, all.data(), share.data(), count));
  calls.push_back(
      call_of(TRC_CALL_BROADCAST, static_cast<const int*>(nullptr), sent.data(), count, 1 % size));
  calls.push_back(call_of(TRC_CALL_ALLGATHER, own.data(), gathered.data(), count));
  calls.push_back(call_of(TRC_CALL_ALLGATHERV, own.data(), varied.data(), count));
  calls.back().out_counts = counts.data();
  calls.push_back(call_of(TRC_CALL_GATHER, own.data(), at_root.data(), count));
  calls.push_back(call_of(TRC_CALL_SCATTER, all.data(), given.data(), count));
  calls.push_back(call_of(TRC_CALL_ALLTOALL, all.data(), turned.data(), count));
  calls.push_back(call_of(TRC_CALL_ALLTOALLV, all.data(), turned_varied.data(), count));
  calls.back().in_counts = calls.back().out_counts = counts.data();
  calls.push_back(call_of(TRC_CALL_BARRIER));
  std::vector<Work> works;
  for (const auto& call : calls) works.push_back(start(group, call));
  if (size > 1) {  // around the ring, all sending first
    works.push_back(
        start(group, call_of(TRC_CALL_SEND, own.data(), static_cast<int*>(nullptr), count, next)));
    works.push_back(
        start(group, call_of(TRC_CALL_RECV, static_cast<const int*>(nullptr), received.data(), count, last)));
  }
  for (const auto& work : works) work.wait();

  int bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int total = size * static_cast<int>(i) + 1000 * size * (size - 1) / 2;
    bad += check(sum[i] == total, "allreduce", i);
    if (rank == 0) bad += check(reduced[i] == total, "reduce", i);
    bad += check(share[i] == total + size * rank * static_cast<int>(count), "reduce_scatter", i);
    bad += check(sent[i] == first_of(1 % size) + static_cast<int>(i), "broadcast", i);
    bad += check(given[i] == rank * static_cast<int>(count) + static_cast<int>(i), "scatter", i);
    for (int r = 0; r < size; ++r)
      bad += check(turned[static_cast<std::size_t>(r) * count + i] ==
                       first_of(r) + rank * static_cast<int>(count) + static_cast<int>(i),
                   "alltoall", i);
  }
  bad += check(gathered == everyone, "allgather", count) + check(varied == everyone, "allgatherv", count);
  if (rank == 0) bad += check(at_root == everyone, "gather", count);
  bad += check(turned_varied == turned, "alltoallv", count);
  if (size > 1) bad += check(received == numbers(count, first_of(last)), "send", count);
  return bad;
}

// Ends are told by the descriptor, each once, and a call that waits comes after what was started.
int told_by_descriptor(const World& world) {
  const auto group = world.group();
  trc_completions* completions = nullptr;
  detail::check(trc_completions_new(&completions));
  constexpr std::uint64_t works = 50;
  std::vector<Ints> data(works, Ints(100, 1));
  std::vector<Work> started;
  for (std::uint64_t i = 0; i < works; ++i)
    started.push_back(start(group, call_allreduce(std::span(data[i])), completions, 1000 + i));
  group.barrier();
  int bad = check(data.back().back() == world.size(), "order", works);
  std::set<std::uint64_t> told;
  while (told.size() < works) {
    pollfd entry{trc_completions_descriptor(completions), POLLIN, 0};
    if (::poll(&entry, 1, 60'000) != 1) return complain("descriptor", "-", told.size());
    std::uint64_t tag = 0;
    while (trc_completions_next(completions, &tag) != 0)
      bad += check(told.insert(tag).second && tag >= 1000 && tag < 1000 + works, "tag", tag);
  }
  pollfd entry{trc_completions_descriptor(completions), POLLIN, 0};
  bad += check(::poll(&entry, 1, 0) == 0, "quiet descriptor", works);
  trc_completions_free(completions);
  return bad;
}

int refusals(const World& world) {
  const auto refused = [&](const trc_call& call) {
    try {
      start(world.group(), call).wait();
    } catch (const Invalid&) {
      return true;
    }
    return false;
  };
  Ints data(4);
  auto wrong_op = call_allreduce(std::span(data));
  wrong_op.op = 99;
  auto short_one = call_allreduce(std::span(data));
  short_one.struct_size = 8;
  auto unknown = call_allreduce(std::span(data));
  unknown.kind = 77;
  const auto nobody = call_of(TRC_CALL_SEND, data.data(), data.data(), 4, 99);
  const std::vector<trc_call> mixed{call_of(TRC_CALL_BARRIER),
                                    call_of(TRC_CALL_SEND, data.data(), data.data(), 4, 0)};
  bool mixed_refused = false;
  try {
    start(world.group(), mixed);
  } catch (const Invalid&) {
    mixed_refused = true;
  }
  return check(
      refused(wrong_op) && refused(short_one) && refused(unknown) && refused(nobody) && mixed_refused,
      "refusal", 0);
}

int works() {
  auto world = World::init();
  int bad = every_kind(world, 7) + every_kind(world, 30'000) + told_by_descriptor(world) + refusals(world);
  // Several calls in one work; and groups that wait for nothing of each other.
  Ints one(10, 1), two(10, 2);
  const std::vector<trc_call> both{call_allreduce(std::span(one)), call_allreduce(std::span(two))};
  start(world.group(), both).wait();
  bad += check(one[9] == world.size() && two[9] == 2 * world.size(), "two calls", 2);
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto other = world.group(ranks);
  const auto in_world = [&] { return start(world.group(), call_of(TRC_CALL_BARRIER)); };
  const auto in_other = [&] { return start(*other, call_of(TRC_CALL_BARRIER)); };
  // In the opposite order on the first rank: neither holds up the other.
  const bool first = world.rank() == 0;
  const auto a = first ? in_world() : in_other();
  const auto b = first ? in_other() : in_world();
  a.wait();
  b.wait();
  if (bad == 0) say("ok " + std::to_string(world.rank()) + " " + std::to_string(world.size()));
  world.free(*other);
  world.shutdown();
  return bad == 0 ? 0 : 1;
}

int works_loop() {
  auto world = World::init();
  std::vector<std::vector<float>> data(4, std::vector<float>(100'000, 1.0F));
  for (int step = 0; step < 1'000'000; ++step) {
    std::vector<Work> works;
    for (auto& one : data) works.push_back(start(world.group(), call_allreduce(std::span(one), Op::max)));
    try {
      for (const auto& work : works) work.wait();
    } catch (const PeerLost& first) {
      // Those that follow it tell the same, also when asked again.
      for (int time = 0; time < 2; ++time) {
        try {
          works.back().wait();
        } catch (const PeerLost& again) {
          if (again.culprit != first.culprit) say("another culprit");
          continue;
        }
        say("a work outlived its world");
      }
      throw;
    }
    if (step == 5) say("running");
  }
  return 0;
}

int works_fork() {
  auto world = World::init();
  const auto running = start(world.group(), call_of(TRC_CALL_BARRIER));
  running.wait();
  const auto child = ::fork();
  if (child == 0) {
    int refused = 0;
    try {
      start(world.group(), call_of(TRC_CALL_BARRIER));
    } catch (const Invalid&) {
      ++refused;
    }
    try {
      running.wait();
    } catch (const Invalid&) {
      ++refused;
    }
    return refused == 2 && !running.ended() ? 7 : 8;  // through all destructors
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  start(world.group(), call_of(TRC_CALL_BARRIER)).wait();
  for (int i = 0; i < 2000; ++i) {  // one that ends just after the wait has not failed
    const auto work = start(world.group(), call_of(TRC_CALL_BARRIER));
    while (!work.wait_for(std::chrono::milliseconds(0))) continue;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 7) say("ok");
  world.shutdown();
  return 0;
}

int works_unwaited() {
  auto world = World::init();
  std::vector<float> data(1, 1.0F);
  world.group().barrier();
  if (world.rank() == world.size() - 1) ::raise(SIGKILL);
  const auto sum = start(world.group(), call_allreduce(std::span(data)));
  try {
    world.shutdown();
  } catch (const PeerLost& error) {
    say("shutdown PeerLost culprit " + std::to_string(error.culprit.value_or(99)));
  }
  return 0;
}

int works_free() {
  auto world = std::make_unique<World>(World::init());
  if (world->rank() == 0) {
    const auto runs = start(world->group(), call_of(TRC_CALL_BARRIER));
    const auto waits = start(world->group(), call_of(TRC_CALL_BARRIER));
    if (runs.wait_for(std::chrono::milliseconds(200))) say("the barrier ended alone");
    const auto begun = std::chrono::steady_clock::now();
    world.reset();
    if (std::chrono::steady_clock::now() - begun > std::chrono::seconds(5)) say("the end took long");
    try {
      waits.wait();
    } catch (const Aborted&) {
      say("freed");
    }
    await_end_of_input();
    std::_Exit(0);
  }
  await_end_of_input();
  return 0;
}

}  // namespace

std::optional<int> works_mode(const std::string& mode) {
  if (mode == "works") return works();
  if (mode == "works_loop") return works_loop();
  if (mode == "works_fork") return works_fork();
  if (mode == "works_unwaited") return works_unwaited();
  if (mode == "works_free") return works_free();
  return std::nullopt;
}
