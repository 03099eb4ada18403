// A rank for the tests of comm. `comm_worker MODE`; what it finds goes to stdout in lines.
//   ops       every operation on every type against the expected values; "ok RANK SIZE"
//   loop      allreduces until something fails; "running" after the first ones
//   mismatch  rank 1 reduces another number of elements
//   fork      rank 0 forks a child that ends in the ordinary way, and all go on; "ok RANK SIZE"
//   late      rank 0 is in a barrier, the others come when their input ends
//   skew      the last rank does not come to a barrier until its input ends; rank 0's time passes first
//   unwind    rank 0 loses its world by an exception ("unwound"), cleans up until its input ends, and exits
//             with 3; the others reduce
//   early     rank 0 exits with 0 at once; the others reduce
//   exit      the same, by exit(0): its world is never ended
//   finalize  rank 0 finalizes while a thread of its own is in a barrier; the others end with their input
//   drop      rank 0 ends its world and itself while a thread of its own is in a barrier, the others as above
//   too_few   rank 0 finalizes while the others are in a barrier
//   ends_late rank 0 finalizes, the others do when their input ends; "ok"
//   frees_late the same, but the others only free their world
//   helper    the last rank forks a child that outlives it, until the input ends; all are in a barrier
//   inherit   what a program that a rank starts gets of its descriptors; "inherited WHAT" for each but three
//   signals   threads that take the program's signals; "open THREADS", of those that are not the program's
//   sigpipe   who handles SIGPIPE after a world in which the program took it over; "handler mine"
//   reduces N, commits N   the last rank exits with 7 soon after an allreduce, or a commit of its state, in
//   each of the first N generations; after them all end well
//   those of groups are in comm_worker_groups.cc
//   those of operations that are started are in comm_worker_works.cc

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

#include "comm_worker.h"
#include "trainrun_elastic.hpp"

namespace {

using namespace trainrun::comm;

// Values small enough that a product of four ranks fits in a signed byte.
template <class T>
T value(int rank, std::size_t i) {
  return static_cast<T>(1 + (static_cast<std::size_t>(rank) + i) % 3);
}

template <class T>
T expected(Op op, int size, std::size_t i) {
  T result = value<T>(0, i);
  for (int rank = 1; rank < size; ++rank) {
    const T next = value<T>(rank, i);
    if (op == Op::sum || op == Op::mean) result = static_cast<T>(result + next);
    if (op == Op::min) result = std::min(result, next);
    if (op == Op::max) result = std::max(result, next);
    if (op == Op::product) result = static_cast<T>(result * next);
  }
  return op == Op::mean ? static_cast<T>(result / static_cast<T>(size)) : result;
}

template <class T>
int try_type(const World& world, const char* type) {
  const auto group = world.group();
  for (const std::size_t count : {0, 1, 5, 1001}) {
    std::vector<T> in(count), out(count);
    for (std::size_t i = 0; i < count; ++i) in[i] = value<T>(world.rank(), i);
    for (const Op op : {Op::sum, Op::mean, Op::min, Op::max, Op::product}) {
      group.allreduce(std::span<const T>(in), std::span(out), op);
      for (std::size_t i = 0; i < count; ++i)
        if (out[i] != expected<T>(op, world.size(), i)) return complain("allreduce", type, count);
    }
    auto in_place = in;
    group.allreduce(std::span(in_place));
    for (std::size_t i = 0; i < count; ++i)
      if (in_place[i] != expected<T>(Op::sum, world.size(), i))
        return complain("allreduce in place", type, count);
    for (int root = 0; root < world.size(); ++root) {
      auto data = in;
      group.broadcast(std::span(data), root);
      for (std::size_t i = 0; i < count; ++i)
        if (data[i] != value<T>(root, i)) return complain("broadcast", type, count);
    }
    const auto all = group.allgather(std::span<const T>(in), world.size());
    for (int rank = 0; rank < world.size(); ++rank)
      for (std::size_t i = 0; i < count; ++i)
        if (all[static_cast<std::size_t>(rank) * count + i] != value<T>(rank, i))
          return complain("allgather", type, count);
  }
  return 0;
}

int ops() {
  auto world = World::init();
  int bad = try_type<unsigned char>(world, "u8") + try_type<signed char>(world, "i8") +
            try_type<int>(world, "i32") + try_type<long>(world, "i64") + try_type<float>(world, "f32") +
            try_type<double>(world, "f64");
  std::vector<float> large(1 << 20, static_cast<float>(world.rank() + 1));
  world.group().allreduce(std::span(large), Op::max);
  if (large.front() != static_cast<float>(world.size()) || large.back() != large.front())
    bad += complain("large allreduce", "f32", large.size());
  // The mean of bytes is formed where their sum would wrap.
  if (world.group().allreduce<unsigned char>(200, Op::mean) != 200) bad += complain("mean", "u8", 1);
  world.group().barrier();
  std::printf("%s %d %d local %d %d over %s\n", bad == 0 ? "ok" : "bad", world.rank(), world.size(),
              world.local_rank(), world.local_size(), world.backend().c_str());
  world.shutdown();
  return bad == 0 ? 0 : 1;
}

int loop() {
  auto world = World::init();
  std::vector<float> data(100'000, 1.0F);
  for (int step = 0; step < 1'000'000; ++step) {
    world.group().allreduce(std::span(data), Op::max);
    if (step == 5) {
      std::printf("running\n");
      std::fflush(stdout);
    }
  }
  return 0;
}

int mismatch() {
  auto world = World::init();
  std::vector<float> data(world.rank() == 1 ? 1000 : 2000);
  world.group().allreduce(std::span(data));
  return 0;
}

int forked() {
  auto world = World::init();
  world.group().barrier();
  if (world.rank() == 0) {
    const auto child = ::fork();
    if (child == 0) {
      try {
        world.group().barrier();
      } catch (const Invalid&) {
        return 7;  // through the destructor of the world, and all that runs at an exit
      }
      return 8;
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 7) {
      std::printf("bad child %d\n", status);
      return 1;
    }
  }
  if (world.group().allreduce(1) != world.size()) return complain("allreduce", "i32", 1);
  world.shutdown();
  std::printf("ok %d %d\n", world.rank(), world.size());
  return 0;
}

int late() {
  auto world = World::init();
  std::printf("running\n");
  std::fflush(stdout);
  if (world.rank() > 0) std::getchar();  // until the test lets go
  world.group().barrier();
  return 0;
}

// The last rank does not come to the third operation.
int stall() {
  auto world = World::init();
  for (int i = 0; i < 2; ++i) world.group().allreduce(1);
  while (world.rank() == world.size() - 1) ::pause();
  std::vector<float> data(1 << 20);
  world.group().allreduce(std::span(data));
  return 0;
}

int skew() {
  const char* rank = std::getenv("TRAINRUN_RANK");
  Options options;
  if (rank != nullptr && std::string(rank) == "0") options.op_timeout = std::chrono::seconds(1);
  auto world = World::init(options);
  if (world.rank() == world.size() - 1) await_end_of_input();
  world.group().barrier();
  return 0;
}

int unwind() {
  try {
    auto world = World::init();
    world.group().barrier();
    if (world.rank() == 0) throw std::runtime_error("no data");
    for (;;) world.group().allreduce(1);
  } catch (const std::runtime_error& error) {
    if (dynamic_cast<const Error*>(&error) != nullptr) throw;
    say("unwound");
    await_end_of_input();
    return 3;
  }
}

int early(bool by_exit) {
  auto world = World::init();
  if (world.rank() > 0) world.group().allreduce(1);
  if (by_exit) std::exit(0);
  return 0;
}

// Rank 0 finalizes; the others are still to do something, or come when the test lets go.
int leave_first(const std::string& others) {
  auto world = World::init();
  if (world.rank() > 0) others == "too_few" ? world.group().barrier() : await_end_of_input();
  if (world.rank() > 0 && others == "frees_late") return 0;
  world.shutdown();
  say("ok");
  return 0;
}

// 'S': it sleeps, waiting for something.
char state_of_thread(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(stat, text);
  const auto name_ends = text.rfind(") ");
  return name_ends == std::string::npos ? '?' : text[name_ends + 2];
}

// Returns once a thread waits in it, which the library does not tell: nothing else in there makes it sleep.
// The thread ends with the process.
void barrier_in_a_thread(const World& world) {
  std::promise<pid_t> begun;
  auto thread = begun.get_future();
  std::thread([group = world.group(), begun = std::move(begun)]() mutable {
    begun.set_value(::gettid());
    try {
      group.barrier();
    } catch (const Error& error) {
      say(std::string("barrier ") + trc_status_name(error.status));
    }
  }).detach();
  const auto id = thread.get();
  for (int i = 0; state_of_thread(id) != 'S'; ++i) {
    if (i == 30000) throw std::runtime_error("the thread does not come to wait in the barrier");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int finalize() {
  auto world = World::init();
  if (world.rank() > 0) return await_end_of_input(), 0;
  barrier_in_a_thread(world);
  try {
    world.shutdown();
  } catch (const Error& error) {
    say(std::string("finalize ") + trc_status_name(error.status));
  }
  await_end_of_input();
  return 0;
}

int drop() {
  auto world = World::init();
  if (world.rank() > 0) return await_end_of_input(), 0;
  barrier_in_a_thread(world);
  { const auto dropped = std::move(world); }
  say("dropped");
  std::_Exit(0);
}

int helper() {
  auto world = World::init();
  if (world.rank() == world.size() - 1 && ::fork() == 0) {
    ::close(1);
    await_end_of_input();
    std::_Exit(0);
  }
  say("running");
  if (world.rank() == world.size() - 1) await_end_of_input();
  world.group().barrier();
  return 0;
}

int inherit() {
  ::close_range(3, ~0U, 0);  // of the test, whose server's sockets are inherited
  auto world = World::init();
  world.group().barrier();
  const int listed = std::system(
      "for fd in /proc/$$/fd/*; do case $(readlink $fd) in socket:*|anon_inode:*) echo inherited $(readlink "
      "$fd);; esac; done");
  world.group().barrier();
  world.shutdown();
  return listed;
}

int signals() {
  auto world = World::init();
  int open = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (thread.path().filename() == std::to_string(::getpid())) continue;
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.rfind("SigBlk:", 0) == 0 &&
          (std::stoull(line.substr(7), nullptr, 16) >> (SIGUSR1 - 1) & 1) == 0)
        ++open;
  }
  say("open " + std::to_string(open));
  world.shutdown();
  return 0;
}

void mine(int) {}

int sigpipe() {
  {
    auto world = World::init();
    std::signal(SIGPIPE, mine);
    world.shutdown();
  }
  struct sigaction now {};
  ::sigaction(SIGPIPE, nullptr, &now);
  say(now.sa_handler == mine ? "handler mine" : "handler another");
  return 0;
}

// Sooner than a second after the world began, in which nobody need be told of what it did.
int fall(const World& world, unsigned falls) {
  if (world.generation() > falls) return 0;
  if (world.rank() == world.size() - 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::_Exit(7);
  }
  for (;;) world.group().barrier();
}

int reduces(unsigned falls) {
  auto world = World::init();
  world.group().allreduce(1);
  const int ended = fall(world, falls);
  world.shutdown();
  return ended;
}

int commits(unsigned falls) {
  elastic::State state;
  int steps = 0;
  state.value("steps", steps);
  elastic::run(state, [&](World& world) {
    ++steps;
    state.commit(world);
    fall(world, falls);
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "ops") return ops();
    if (mode == "loop") return loop();
    if (mode == "mismatch") return mismatch();
    if (mode == "late") return late();
    if (mode == "fork") return forked();
    if (mode == "stall") return stall();
    if (mode == "skew") return skew();
    if (mode == "unwind") return unwind();
    if (mode == "early" || mode == "exit") return early(mode == "exit");
    if (mode == "finalize") return finalize();
    if (mode == "drop") return drop();
    if (mode == "too_few" || mode == "ends_late" || mode == "frees_late") return leave_first(mode);
    if (mode == "helper") return helper();
    if (mode == "inherit") return inherit();
    if (mode == "signals") return signals();
    if (mode == "sigpipe") return sigpipe();
    if (mode == "reduces" && argc > 2) return reduces(static_cast<unsigned>(std::atoi(argv[2])));
    if (mode == "commits" && argc > 2) return commits(static_cast<unsigned>(std::atoi(argv[2])));
    if (const auto ended = group_mode(mode)) return *ended;
    if (const auto ended = works_mode(mode)) return *ended;
    std::fprintf(stderr, "usage: comm_worker MODE\n");
    return 2;
  } catch (const Error& error) {
    std::string missing;
    for (const int rank : error.missing) missing += " " + std::to_string(rank);
    std::printf("failed %s culprit %d host %s missing%s how %s\n", trc_status_name(error.status),
                error.culprit.value_or(-1), error.host.empty() ? "-" : error.host.c_str(),
                missing.empty() ? " -" : missing.c_str(), error.how.empty() ? "-" : error.how.c_str());
    std::printf("%s\n", error.what());
    return 3;
  }
}
