// One rank of tests/bench/collectives that does the same by Gloo itself: its own mesh of everybody with
// everybody, its own ring of an allreduce, nothing of ours but who is who. Prints what bench_collective_rank
// prints, as "plain".
//
//   bench_plain_gloo FOLDER ROUNDS BYTES...      FOLDER: new, seen by all hosts; RANK and WORLD_SIZE are set
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The interface that other hosts reach.
std::string outer_interface() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  std::string found;
  for (const auto* one = all; one != nullptr && found.empty(); one = one->ifa_next)
    if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
        (one->ifa_flags & IFF_LOOPBACK) == 0)
      found = one->ifa_name;
  ::freeifaddrs(all);
  return found;
}

template <class Element>
void largest(const std::shared_ptr<gloo::Context>& context, std::vector<Element>& values) {
  gloo::AllreduceOptions options(context);
  options.setOutput(values.data(), values.size());
  void (*const reduce)(void*, const void*, const void*, std::size_t) = gloo::max<Element>;
  options.setReduceFunction(reduce);
  gloo::allreduce(options);
}

}  // namespace

int main(int argc, char** argv) {
  const char *const rank_text = std::getenv("RANK"), *const size_text = std::getenv("WORLD_SIZE");
  if (argc < 4 || rank_text == nullptr || size_text == nullptr)
    return std::fprintf(stderr, "usage: RANK=R WORLD_SIZE=N bench_plain_gloo FOLDER ROUNDS BYTES...\n"), 2;
  const int rank = std::atoi(rank_text), size = std::atoi(size_text), rounds = std::atoi(argv[2]);
  gloo::transport::tcp::attr attributes;
  attributes.iface = outer_interface();
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  gloo::rendezvous::FileStore store(argv[1]);
  context->connectFullMesh(store, device);
  for (int i = 3; i < argc; ++i) {
    const auto bytes = std::strtoull(argv[i], nullptr, 10);
    const int calls = bytes <= 4096 ? 200 : 1;  // as bench_collective_rank
    std::vector<float> values(bytes / sizeof(float));
    std::vector<double> times, took(1);
    bool correct = true;
    for (int round = 0; round < rounds + 2; ++round) {
      std::fill(values.begin(), values.end(), static_cast<float>(rank));
      largest(context, took);
      const auto begin = now_us();
      for (int call = 0; call < calls; ++call) largest(context, values);
      took.front() = (now_us() - begin) / calls;
      correct = correct && values.front() == static_cast<float>(size - 1) &&
                values.back() == static_cast<float>(size - 1);
      largest(context, took);
      if (round >= 2) times.push_back(took.front());
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                     times.end());
    if (rank == 0)
      std::printf("plain %llu %.3f %s\n", bytes, times[times.size() / 2], correct ? "right" : "wrong");
  }
  std::fflush(stdout);
  std::_Exit(0);  // Gloo's end of one rank is an error to those who have not come to it
}
