// Requests of PyTorch's TCPStore clients, three at a time. A byte says whose the next piece is, and one how
// long.
#include <array>
#include <set>

#include "rendezvous/adapters/torch_store.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;
using rendezvous::TorchStore;

namespace {

constexpr std::uint32_t clients = 3;

struct Bench {
  std::set<std::uint32_t> open;
  std::array<std::size_t, clients + 1> unsent{};
  TorchStore store{
      {[this](std::uint32_t to, const std::string& bytes) {
         FUZZ_CHECK(open.contains(to) && !bytes.empty());
         unsent[to] += bytes.size();
         accepted();
       },
       [this](std::uint32_t of, const std::string& why) { FUZZ_CHECK(open.erase(of) == 1 && !why.empty()); },
       [this](std::uint32_t of) { return unsent[of]; }}};

  void come(std::uint32_t client) {
    open.insert(client);
    unsent[client] = 0;
    store.opened(client, client == clients ? std::nullopt : std::optional(Rank{client}));
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = text_of(data, size);
  Bench bench;
  bench.store.begin({1});
  for (std::uint32_t client = 1; client <= clients; ++client) bench.come(client);
  while (bytes.size() >= 2) {
    const auto client = 1 + static_cast<std::uint8_t>(bytes[0]) % clients;
    const auto what = static_cast<std::uint8_t>(bytes[0]) / clients;
    const auto piece = bytes.substr(2, static_cast<std::uint8_t>(bytes[1]));
    bytes.remove_prefix(2 + piece.size());
    if (!bench.open.contains(client)) bench.come(client);
    if (what == 0) {
      bench.store.closed(client);
      bench.open.erase(client);
    } else if (what == 1) {
      bench.store.begin({2});
    } else {
      bench.store.received(client, piece);
    }
  }
  FUZZ_CHECK(bench.store.arrivals().ranks.size() <= clients);

  // Whatever they sent, one that comes now is served.
  bench.come(1);
  bench.store.received(1, {"\0\xCE\xF7\x85\x3C\x0D\1\2\3\4", 10});
  FUZZ_CHECK(bench.unsent[1] == 4);
  return 0;
}
