// The rendezvous table under any order of requests, closed connections, passing time and words of the
// launcher.
#include <map>
#include <set>

#include "rendezvous/protocol.h"
#include "rendezvous/table.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/fill.h"

using namespace trainrun;
using namespace trainrun::fuzz;
using namespace trainrun::rendezvous;

namespace {

class Game {
 public:
  void play(Bytes& bytes) {
    begin(bytes);
    for (int moves = 0; !bytes.empty() && moves < 400; ++moves) move(bytes);
    // In the end everybody has an answer, since every wait has its time.
    while (const auto next = table_.next_deadline()) advance_to(std::max(*next, now_));
    for (const auto& [connection, open] : asked_) FUZZ_CHECK(open.empty());
  }

 private:
  void move(Bytes& bytes) {
    Filler filler(bytes);
    const auto what = bytes.byte();
    const auto connection = std::uint32_t{bytes.byte()} % 6;
    std::uint32_t number = 0;
    std::string text;
    switch (what % 16) {
      case 0:
        return begin(bytes);
      case 1:
        asked_.erase(connection);
        deliver(table_.closed(connection, now_));
        return;
      case 2:
        filler(number, text);
        return deliver(table_.lost(generation(bytes), Rank{number}, "gpu1", text));
      case 3:
        return deliver(table_.end(generation(bytes), "enough"));
      case 4:
        filler(number);
        return deliver(table_.dismiss(WorkerId{number}));
      case 5: {
        auto change = Change::none;
        filler(change, number, text);
        return deliver(table_.announce(generation(bytes), change, {number}, text));
      }
      case 6:
        return advance_to(now_ + milliseconds(bytes.byte()));
      default:
        return ask(connection, what / 16u, bytes);
    }
  }

  Generation generation(Bytes& bytes) const {
    const auto byte = bytes.byte();
    return Generation{byte < 240 ? table_.generation().value : std::uint32_t{byte} - 240u};
  }

  void begin(Bytes& bytes) {
    Filler filler(bytes);
    World world;
    world.generation = table_.generation().value + 1;
    world.size = 1 + bytes.byte() % 4;
    bool described = false;
    filler(described);
    for (std::uint32_t rank = 0; described && rank < world.size; ++rank)
      world.members.push_back(
          {.rank = rank, .host = "gpu1", .address = {}, .worker = world.generation + rank});
    deliver(table_.begin(world, now_));
  }

  void ask(std::uint32_t connection, std::size_t verb, Bytes& bytes) {
    Request request;
    request.id = ++last_id_;
    request.generation = generation(bytes).value;
    Filler filler(bytes);
    fill_variant(verb, request.body, filler);
    // As it comes from the wire.
    const auto received = decode_request(encode(request));
    FUZZ_CHECK(received);
    asked_[connection].insert(request.id);
    deliver(table_.apply(connection, *received, now_));
    FUZZ_CHECK(asked_[connection].size() <= max_waits);
  }

  void advance_to(Instant then) {
    now_ = then;
    deliver(table_.advance(now_));
    const auto next = table_.next_deadline();
    FUZZ_CHECK(!next || *next > now_);
  }

  // Each request has one answer, and nobody else gets any.
  void deliver(const Outbox& outbox) {
    for (const auto& item : outbox) {
      const auto open = asked_.find(item.connection);
      FUZZ_CHECK(open != asked_.end() && open->second.erase(item.request) == 1);
      const auto bytes = encode_reply(item.request, *item.body);
      FUZZ_CHECK(bytes.size() <= max_reply && decode_reply(bytes));
      accepted();
    }
    static_cast<void>(table_.take_events());
  }

  Table table_;
  Instant now_{};
  std::uint32_t last_id_ = 0;
  std::map<std::uint32_t, std::set<std::uint32_t>> asked_;  // by connection: requests without an answer
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  Game().play(bytes);
  return 0;
}
