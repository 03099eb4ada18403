// Many members in one world; with TRAINRUN_MANY_MEMBERS, as the nightly run has it, more than one reply of
// the rendezvous could once tell of.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/backends/factory.h"
#include "launcher/base/open_files.h"
#include "tests/unit/comm/only_races.h"
#include "tests/unit/rendezvous/server.h"

using namespace trainrun;
using namespace trainrun::comm;

namespace {

constexpr std::uint32_t usual_size = only_races ? 40 : 104;  // the cost grows with the square
const char* const many = std::getenv("TRAINRUN_MANY_MEMBERS");
const std::uint32_t size = many == nullptr ? usual_size : static_cast<std::uint32_t>(std::atoi(many));

// Against hanging only: all connections of all ranks are this process's, and each rank looks through them.
constexpr Duration long_enough = seconds(300);

// Each member on a thread and a connection of its own: all of them join one world.
void all_members(const std::function<std::string(rendezvous::Client&, const rendezvous::Joined&)>& work) {
  std::vector<std::string> hosts;
  for (std::uint32_t rank = 0; rank < size; ++rank) hosts.push_back(fmt::format("host{}", rank / 8));
  rendezvous::Server server(size, hosts);
  std::vector<std::string> wrong(size);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto client = server.client();
      const auto joined = client.join(Rank{rank}, hosts[rank], "127.0.0.1", long_enough);
      wrong[rank] = joined ? work(client, *joined) : joined.error().message;
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::uint32_t rank = 0; rank < size; ++rank)
    CHECK_MESSAGE(wrong[rank].empty(), rank, ": ", wrong[rank]);
}

}  // namespace

TEST_CASE("many ranks on hosts of eight find each other by the rendezvous, connect, and add up") {
  // Each rank's connections are this process's.
  raise_open_files();
  rlimit files{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
  constexpr rlim_t needed = 8192;
  REQUIRE_MESSAGE(files.rlim_cur >= needed, "the hard limit on open files is too low: ulimit -Hn ", needed);
  all_members([](rendezvous::Client& client, const rendezvous::Joined& joined) -> std::string {
    const auto deadline = std::chrono::steady_clock::now() + long_enough;
    const auto world = client.world(joined);
    if (!world) return world.error().message;
    const auto rank = joined.self.rank;
    auto draft = make_backend(
        {client, world->members, rank, "comm/", "127.0.0.1", BackendChoice::automatic, {}, deadline});
    if (!draft) return draft.error().message;
    const auto connected = draft->connect();
    if (!connected) return connected.error().message;
    if (!*connected) return connected->error().text;
    std::int64_t sum = rank;
    Descriptor what;
    what.call = Call::allreduce;
    what.count = 1;
    what.dtype = TRC_I64;
    const auto done = draft->backend->perform(what, {.in = &sum, .out = &sum}, deadline);
    if (!done) return done.error().text;
    // Who closed its connections now could cost another its last bytes.
    if (const auto met = client.barrier("end", {}, long_enough); !met) return met.error().message;
    return sum == size * (size - 1) / 2 ? "" : fmt::format("a sum of {}", sum);
  });
}
