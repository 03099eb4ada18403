// Requests of Horovod's workers, three connections at a time. A byte says whose the next piece is, and one
// how long.
#include <map>

#include "rendezvous/adapters/horovod_http.h"
#include "tests/fuzz/check.h"

using namespace trainrun;
using namespace trainrun::fuzz;
using rendezvous::HorovodHttp;

namespace {

constexpr std::uint32_t clients = 3;
// The second is the first with a newcomer at its second place.
const std::vector<HorovodHttp::Seat> worlds[] = {{{{0}, "a", 0, 1, 0, 2, {1}}, {{1}, "b", 0, 1, 1, 2, {2}}},
                                                 {{{0}, "a", 0, 1, 0, 2, {1}}, {{1}, "b", 0, 1, 1, 2, {3}}}};

struct Bench {
  std::map<std::uint32_t, bool> open;  // whether it has its reply
  HorovodHttp http{{[this](std::uint32_t to, const std::string& bytes) {
                      FUZZ_CHECK(open.contains(to) && !open[to] && bytes.starts_with("HTTP/1.0 "));
                      open[to] = true;
                    },
                    [this](std::uint32_t of, const std::string& why) {
                      FUZZ_CHECK(open.contains(of) && open[of]);
                      if (why.empty() && of <= clients) accepted();
                      open.erase(of);
                    },
                    [](Rank rank) { FUZZ_CHECK(rank.value < 2); },
                    [this] { FUZZ_CHECK(http.elastic()); },
                    [](WorkerId worker) { FUZZ_CHECK(worker.value >= 1 && worker.value <= 3); },
                    [](WorkerId worker) { FUZZ_CHECK(worker.value >= 1 && worker.value <= 3); },
                    {},
                    // Others wait, and it is none of them.
                    [this](Rank rank) { FUZZ_CHECK(http.awaits(rank)); }}};

  void come(std::uint32_t client) {
    open[client] = false;
    http.opened(client);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = text_of(data, size);
  Bench bench;
  bench.http.begin(worlds[0]);
  while (bytes.size() >= 2) {
    const auto client = 1 + static_cast<std::uint8_t>(bytes[0]) % clients;
    const auto what = static_cast<std::uint8_t>(bytes[0]) / clients;
    const auto piece = bytes.substr(2, static_cast<std::uint8_t>(bytes[1]));
    bytes.remove_prefix(2 + piece.size());
    if (!bench.open.contains(client)) bench.come(client);
    if (what == 0) {
      bench.http.closed(client);
      bench.open.erase(client);
    } else if (what == 1) {
      bench.http.begin(worlds[0]);
    } else if (what == 2) {
      bench.http.left(Rank{static_cast<std::uint32_t>(client) % 2});
    } else if (what == 84) {
      bench.http.begin(worlds[1]);
    } else if (what == 85) {
      bench.http.dismiss({1 + static_cast<std::uint32_t>(client)});
    } else {
      bench.http.received(client, piece);
    }
  }
  FUZZ_CHECK(bench.http.arrivals().size() <= worlds[0].size());

  // Whatever they sent, one that comes now is served.
  bench.come(clients + 1);
  bench.http.received(clients + 1, "PUT /any/key HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
  FUZZ_CHECK(!bench.open.contains(clients + 1));
  return 0;
}
