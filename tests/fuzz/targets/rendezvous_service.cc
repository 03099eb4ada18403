// The rendezvous server's connections: strangers that send any bytes, members that have the key and send any
// messages, and members whose bytes are changed on the way.
#include "rendezvous/service.h"

#include <map>
#include <optional>

#include "rendezvous/protocol.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/fill.h"

using namespace trainrun;
using namespace trainrun::fuzz;
using namespace trainrun::rendezvous;

namespace {

constexpr std::size_t most_to_strangers = 256;

class Game {
 public:
  Game()
      : service_(key_, {.send = [this](auto connection, auto bytes) { sent_[connection] += bytes; },
                        .close = [this](auto connection) { gone_.insert(connection); },
                        .over = {},
                        .event = [this](const Event&) { FUZZ_CHECK(proven_); }}) {
    service_.begin_generation({1}, {.generation = 1, .size = 2, .job = "job", .members = {}}, now_);
  }

  void play(Bytes& bytes) {
    for (int moves = 0; !bytes.empty() && moves < 60; ++moves) move(bytes);
    service_.advance(now_ + std::chrono::hours(48));
  }

 private:
  void move(Bytes& bytes) {
    const auto what = bytes.byte();
    const std::uint32_t connection = bytes.byte() % 4;
    switch (what % 8) {
      case 0:
        gone_.erase(connection), sent_.erase(connection), clients_.erase(connection);
        return service_.opened(connection, now_);
      case 1:
        service_.closed(connection, now_);
        gone_.insert(connection);
        return;
      case 2:
        now_ += seconds(bytes.byte() % 20);
        return service_.advance(now_);
      case 3:
        service_.received(connection, bytes.take(bytes.byte()), now_);
        break;
      case 4:
        return meet(connection);
      default:
        return speak(connection, what, bytes);
    }
    if (!clients_.contains(connection)) FUZZ_CHECK(sent_[connection].size() <= most_to_strangers);
  }

  // The handshake of one who has the key.
  void meet(std::uint32_t connection) {
    if (gone_.contains(connection) || clients_.contains(connection) || !sent_[connection].empty()) return;
    service_.opened(connection, now_);
    clients_.emplace(connection, SecureChannel(SecureChannel::Role::client, key_, max_reply));
    proven_ = true;
    for (int round = 0; round < 4; ++round) {
      auto& client = clients_.at(connection);
      service_.received(connection, client.take_output(), now_);
      hear(connection);
    }
  }

  void speak(std::uint32_t connection, std::uint8_t what, Bytes& bytes) {
    const auto client = clients_.find(connection);
    if (client == clients_.end() || !client->second.established()) return;
    for (int count = 0; count <= what / 8 % 3; ++count) {
      Request request{.id = ++last_id_, .generation = 1, .body = {}};
      Filler filler(bytes);
      fill_variant(bytes.byte(), request.body, filler);
      const auto message = encode(request);
      client->second.send(what % 8 == 7 ? bytes.take(40) : std::string_view(message));
    }
    auto output = client->second.take_output();
    const auto at = bytes.byte();  // changed there, mostly nowhere
    if (at > 200) output[output.size() * (at - 200u) / 56u] ^= 1;
    service_.received(connection, output, now_);
    if (at > 200) clients_.erase(client);  // nothing that comes after it can be read
    hear(connection);
  }

  void hear(std::uint32_t connection) {
    const auto client = clients_.find(connection);
    if (client == clients_.end()) return;
    const auto good = client->second.receive(std::exchange(sent_[connection], {}));
    FUZZ_CHECK(good || gone_.contains(connection));
    while (const auto message = client->second.next()) {
      FUZZ_CHECK(decode_reply(*message));
      accepted();
    }
  }

  Key key_{};
  Instant now_{};
  bool proven_ = false;
  std::uint32_t last_id_ = 0;
  std::map<std::uint32_t, std::string> sent_;
  std::set<std::uint32_t> gone_;
  std::map<std::uint32_t, SecureChannel> clients_;
  Service service_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  Game().play(bytes);
  return 0;
}
