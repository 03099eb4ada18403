// Modes of comm_worker about groups, and about all operations.
//   groups          groups of some of the ranks beside the world, and messages to any rank; "ok RANK SIZE"
//   group_loop      ranks 0 and 2 reduce in a group of their own ("running"), the others wait for them
//   group_mismatch  the same, but rank 2 reduces another number of elements
//   group_late      rank 0 makes a group with rank 2, which does not come
//   group_early     rank 0 exits with 0 at once; the others make a group of all ranks
//   send_late       rank 0 receives from rank 2, which does not send
//   group_crossed   rank 0 reduces in one of two groups of the same ranks, the others in the other one
//   group_lists     rank 0 makes a group with rank 1, the others one of all ranks
//   group_forgotten rank 0 is in a barrier; when their input ends the others make a group of all ranks
//   group_ring      each rank makes a group with the next one, and the last with the first
//   both_receive    ranks 0 and 1 receive from each other, rank 0 after it has sent once; the others are in a
//                   barrier
//   send_elsewhere  rank 0 sends to rank 1, and rank 3 makes a group with rank 2, in less time; they do not
//   come send_mismatch   rank 0 sends to rank 1, which receives another number of elements; then a barrier
//   counts_mismatch the ranks give other counts to an allgatherv, of as many elements in all
//   all_operations            one after the other, small and large, until something fails
//   all_operations_and_child  the same, and the last rank forks a child that lives until the input ends
//   leaks           makes and ends groups, and a world; "nothing left", or what there is more of

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "comm_worker.h"

using namespace trainrun::comm;

namespace {

// Descriptors, threads, and mapped memory of several processes.
struct Held {
  std::ptrdiff_t descriptors = 0, threads = 0, segments = 0;
  friend bool operator==(const Held&, const Held&) = default;
};
Held held() {
  const auto entries = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  };
  Held now{entries("/proc/self/fd"), entries("/proc/self/task"), 0};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("trainrun-comm") != std::string::npos) ++now.segments;
  return now;
}

int groups() {
  auto world = World::init();
  const int rank = world.rank(), size = world.size();
  int bad = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<int> evens, odds;
    for (int other = size - 1; other >= 0; --other) (other % 2 == 0 ? evens : odds).push_back(other);
    const auto even = world.group(evens), odd = world.group(odds);
    if (even.has_value() != (rank % 2 == 0) || odd.has_value() == even.has_value())
      bad += complain("group", "", 0);
    const auto mine = even ? *even : *odd;
    if (mine.rank() != rank / 2 || mine.size() != static_cast<int>(even ? evens.size() : odds.size()))
      bad += complain("place in a group", "", 0);
    const int expected =
        even ? std::reduce(evens.begin(), evens.end()) : std::reduce(odds.begin(), odds.end());
    std::atomic<int> wrong{0};
    std::thread beside([&] {
      for (int i = 0; i < 50; ++i)
        if (mine.allreduce(rank) != expected) ++wrong;
    });
    for (int i = 0; i < 50; ++i)
      if (world.group().allreduce(rank) != size * (size - 1) / 2) ++wrong;
    beside.join();
    if (wrong != 0) bad += complain("allreduce of groups", "", 0);
    std::vector<int> from_last{rank};
    mine.broadcast(std::span(from_last), mine.size() - 1);
    if (from_last[0] != (even ? evens[0] : odds[0])) bad += complain("broadcast of a group", "", 0);
    world.free(mine);
  }
  // Around the ring, and to the rank opposite.
  const auto all = world.group();
  for (const std::size_t count : {0, 1, 100'000})
    for (const int distance : {1, size / 2}) {
      if (size == 1) continue;
      const std::vector<float> own(count, static_cast<float>(rank));
      std::vector<float> got(count, -1);
      const int to = (rank + distance) % size, from = (rank + size - distance) % size;
      // The lowest of a cycle begins with sending, and each other with receiving.
      const bool first = distance == 1 ? rank == 0 : rank < distance;
      if (first) all.send(std::span(own), to);
      all.receive(std::span(got), from);
      if (!first) all.send(std::span(own), to);
      if (got != std::vector<float>(count, static_cast<float>(from)))
        bad += complain("receive", "f32", count);
    }
  // The first ranks have less to do than the others.
  for (int i = 0; i < rank; ++i) world.group().barrier();
  world.group().join();
  say(std::string(bad == 0 ? "ok " : "bad ") + std::to_string(rank) + " " + std::to_string(size));
  world.shutdown();
  return bad == 0 ? 0 : 1;
}

int group_loop(bool mismatch) {
  auto world = World::init();
  if (const auto group = world.group(std::vector<int>{0, 2})) {
    std::vector<float> data(mismatch && world.rank() == 2 ? 7 : 100'000, 1.0F);
    for (int step = 0; step < 1'000'000; ++step) {
      group->allreduce(std::span(data), Op::max);
      if (step == 5) say("running");
    }
  }
  say("running");
  world.group().barrier();
  return 0;
}

int group_late() {
  auto world = World::init();
  if (world.rank() == 0) static_cast<void>(world.group(std::vector<int>{0, 2}));
  await_end_of_input();
  world.group().barrier();
  return 0;
}

int group_early() {
  auto world = World::init();
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  if (world.rank() > 0) static_cast<void>(world.group(all));
  return 0;
}

int group_crossed() {
  auto world = World::init();
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  const auto one = world.group(all), other = world.group(all);
  (world.rank() == 0 ? one : other)->allreduce(1);
  return 0;
}

int group_lists() {
  auto world = World::init();
  std::vector<int> members(world.rank() == 0 ? 2 : static_cast<std::size_t>(world.size()));
  std::iota(members.begin(), members.end(), 0);
  world.group(members)->barrier();
  return 0;
}

int group_forgotten() {
  auto world = World::init();
  if (world.rank() == 0) {
    say("waits");
    world.group().barrier();
  }
  await_end_of_input();
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  world.group(all)->barrier();
  return 0;
}

int group_ring() {
  auto world = World::init();
  const std::vector<int> members{world.rank(), (world.rank() + 1) % world.size()};
  world.group(members)->barrier();
  return 0;
}

int send_mismatch() {
  auto world = World::init();
  std::vector<float> data(world.rank() == 0 ? 8 : 9);
  try {
    if (world.rank() == 0) world.group().send(std::span<const float>(data), 1);
    if (world.rank() == 1) world.group().receive(std::span(data), 0);
  } catch (const Mismatch& error) {
    say(error.what());
  }
  world.group().barrier();
  return 0;
}

int counts_mismatch() {
  auto world = World::init();
  std::vector<std::uint64_t> counts{4, 4};
  if (world.rank() == 1) counts = {3, 5};
  const std::vector<float> own(counts[static_cast<std::size_t>(world.rank())]);
  std::vector<float> all(8);
  world.group().allgatherv(std::span<const float>(own), std::span(all), counts);
  return 0;
}

int send_late() {
  auto world = World::init();
  int value = 0;
  if (world.rank() == 0) world.group().receive(std::span<int>(&value, 1), 2);
  await_end_of_input();
  world.group().barrier();
  return 0;
}

int send_elsewhere() {
  const bool has_less_time = std::string_view(std::getenv("TRAINRUN_RANK")) == "3";
  auto world = has_less_time ? World::init({.op_timeout = std::chrono::seconds(1)}) : World::init();
  int value = 0;
  if (world.rank() == 0) world.group().send(std::span<const int>(&value, 1), 1);
  if (world.rank() == 3) static_cast<void>(world.group(std::vector<int>{2, 3}));
  await_end_of_input();
  world.group().barrier();
  return 0;
}

int both_receive() {
  auto world = World::init();
  int value = 0;
  const std::span<int> one(&value, 1);
  const auto group = world.group();
  if (world.rank() > 1) group.barrier();
  if (world.rank() == 0) group.send(std::span<const int>(one), 1);
  if (world.rank() == 1) group.receive(one, 0);
  group.receive(one, 1 - world.rank());
  return 0;
}

int all_operations(bool child) {
  auto world = World::init();
  const int rank = world.rank(), size = world.size();
  if (child && rank == size - 1 && ::fork() == 0) {
    ::close(1);
    await_end_of_input();
    std::_Exit(0);
  }
  const auto group = world.group();
  for (;;)
    for (const std::size_t count : {5, 100'000}) {
      const auto blocks = count * static_cast<std::size_t>(size);
      std::vector<float> one(count, 1), other(count), all(blocks, 1), more(blocks);
      const std::vector<std::uint64_t> counts(static_cast<std::size_t>(size), count);
      group.allreduce(std::span(one));
      group.reduce(std::span<const float>(one), std::span(other), 1);
      group.reduce_scatter(std::span<const float>(all), std::span(one));
      group.broadcast(std::span(one), 2);
      group.allgather(std::span<const float>(one), std::span(all));
      group.allgatherv(std::span<const float>(one), std::span(all), std::span(counts));
      group.gather(std::span<const float>(one), std::span(all), 0);
      group.scatter(std::span<const float>(all), std::span(one), 2);
      group.alltoall(std::span<const float>(all), std::span(more));
      group.alltoallv(std::span<const float>(all), std::span(counts), std::span(more), std::span(counts));
      group.barrier();
      if (rank == 0) group.send(std::span<const float>(one), 2);
      if (rank == 2) group.receive(std::span(one), 0);
    }
}

int leaks() {
  std::thread([] {}).join();  // a sanitizer's own thread comes with the program's first
  const auto before = held();
  Held with_world, at_end;
  {
    auto world = World::init();
    const auto group = world.group();
    int value = world.rank();
    // The first that goes from one rank to another connects the two.
    if (world.rank() == 0) group.send(std::span<const int>(&value, 1), 1);
    if (world.rank() == 1) group.receive(std::span(&value, 1), 0);
    with_world = held();
    std::vector<int> ranks(static_cast<std::size_t>(world.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    for (int round = 0; round < 10; ++round) {
      const auto same = world.group(ranks);
      same->allreduce(1);
      if (world.rank() == 0) same->send(std::span<const int>(&value, 1), 2);
      if (world.rank() == 2) same->receive(std::span(&value, 1), 0);
      round < 5 ? world.free(*same) : world.leave(*same);
    }
    group.barrier();
    world.free(*world.group(ranks));  // what all have left is given back before it is made
    at_end = held();
    world.shutdown();
  }
  const auto after = held();
  const auto tell = [](const char* what, const Held& a, const Held& b) {
    say(std::string(what) + ": descriptors " + std::to_string(a.descriptors) + " " +
        std::to_string(b.descriptors) + ", threads " + std::to_string(a.threads) + " " +
        std::to_string(b.threads) + ", segments " + std::to_string(a.segments) + " " +
        std::to_string(b.segments));
  };
  if (!(with_world == at_end)) tell("groups", with_world, at_end);
  if (!(before == after)) tell("world", before, after);
  if (with_world == at_end && before == after) say("nothing left");
  return 0;
}

}  // namespace

std::optional<int> group_mode(const std::string& mode) {
  if (mode == "groups") return groups();
  if (mode == "group_loop") return group_loop(false);
  if (mode == "group_mismatch") return group_loop(true);
  if (mode == "group_late") return group_late();
  if (mode == "group_early") return group_early();
  if (mode == "group_crossed") return group_crossed();
  if (mode == "group_lists") return group_lists();
  if (mode == "group_forgotten") return group_forgotten();
  if (mode == "group_ring") return group_ring();
  if (mode == "send_late") return send_late();
  if (mode == "send_elsewhere") return send_elsewhere();
  if (mode == "both_receive") return both_receive();
  if (mode == "send_mismatch") return send_mismatch();
  if (mode == "counts_mismatch") return counts_mismatch();
  if (mode == "all_operations") return all_operations(false);
  if (mode == "all_operations_and_child") return all_operations(true);
  if (mode == "leaks") return leaks();
  return std::nullopt;
}
