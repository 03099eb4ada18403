#include "rendezvous/service.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <random>

#include "rendezvous/protocol.h"

using namespace trainrun;
using namespace trainrun::rendezvous;

namespace {

// A service and clients that are only channels; bytes go at once.
struct Hall {
  Hall()
      : service(key, {[this](std::uint32_t c, std::string bytes) { inbox[c] += bytes; },
                      [this](std::uint32_t c) { hung_up.insert(c); },
                      [this](const Verdict& verdict) { verdicts.push_back(verdict); },
                      {},
                      [this](std::uint32_t c) { return inbox[c].size(); }}) {}

  SecureChannel& connect(std::uint32_t c) {
    service.opened(c, now);
    auto& channel =
        channels.emplace(c, SecureChannel(SecureChannel::Role::client, key, max_reply)).first->second;
    pump(c);
    pump(c);
    return channel;
  }
  void pump(std::uint32_t c) {
    auto& channel = channels.at(c);
    if (const auto out = channel.take_output(); !out.empty()) service.received(c, out, now);
    REQUIRE(channel.receive(std::exchange(inbox[c], {})));
  }
  template <class Body>
  void ask(std::uint32_t c, Body body) {
    channels.at(c).send(encode(Request{1, 1, std::move(body)}));
    pump(c);
  }
  std::optional<ReplyBody> told(std::uint32_t c) {
    REQUIRE(channels.at(c).receive(std::exchange(inbox[c], {})));
    const auto message = channels.at(c).next();
    if (!message) return std::nullopt;
    const auto reply = decode_reply(*message);
    REQUIRE(reply);
    return reply->body;
  }

  Key key = random_key();
  Instant now{seconds(5000)};
  std::map<std::uint32_t, std::string> inbox;
  std::set<std::uint32_t> hung_up;
  std::vector<Verdict> verdicts;
  std::map<std::uint32_t, SecureChannel> channels;
  Service service;
};

}  // namespace

TEST_CASE("256 members meet through the service, gather their addresses and leave") {
  Hall hall;
  constexpr std::uint32_t size = 256;
  hall.service.begin_generation({1}, World{0, size, "job", {}}, hall.now);
  const auto started = std::chrono::steady_clock::now();
  for (std::uint32_t c = 0; c < size; ++c) {
    hall.connect(c);
    hall.ask(c, Join{{}, fmt::format("h{}", c / 8), "10.0.0.1", 1000});
  }
  for (std::uint32_t c = 0; c < size; ++c) {
    const auto reply = hall.told(c);
    REQUIRE(reply);
    REQUIRE(std::get<Joined>(*reply).self.rank == c);
    CHECK(std::get<Joined>(*reply).self.local_rank == c % 8);
    hall.ask(c, Put{fmt::format("a/{}", c), "x"});
    REQUIRE(std::holds_alternative<Done>(*hall.told(c)));
    hall.ask(c, Gather{"a/", size, 1000});
  }
  for (std::uint32_t c = 0; c < size; ++c) {
    CHECK(std::get<Values>(*hall.told(c)).values.size() == size);
    hall.ask(c, Leave{});
  }
  MESSAGE("256 members, both sides: "
          << std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - started).count()
          << " ms");
  REQUIRE(hall.verdicts.size() == 1);
  CHECK(hall.verdicts.front().kind == Verdict::Kind::ended);
}

TEST_CASE("a connection that does not prove the key in time is closed") {
  Hall hall;
  hall.service.begin_generation({1}, World{0, 1, {}, {}}, hall.now);
  hall.service.opened(7, hall.now);
  hall.service.received(7, "trn", hall.now);
  REQUIRE(hall.service.next_deadline() == hall.now + Service::handshake_time);
  hall.service.advance(hall.now + Service::handshake_time - milliseconds(1));
  CHECK(hall.hung_up.empty());
  hall.service.advance(hall.now + Service::handshake_time);
  CHECK(hall.hung_up.contains(7));
  CHECK(hall.service.connections() == 0);
  CHECK_FALSE(hall.service.next_deadline());
}

TEST_CASE("a crowd that proves nothing pushes out its own oldest, never a member") {
  Hall hall;
  hall.service.begin_generation({1}, World{0, 2, {}, {}}, hall.now);
  hall.connect(1);
  for (std::uint32_t c = 100; c < 100 + Service::max_handshakes + 5; ++c) hall.service.opened(c, hall.now);
  CHECK(hall.hung_up.size() == 5);
  CHECK(hall.hung_up.contains(100));
  CHECK_FALSE(hall.hung_up.contains(1));
  hall.ask(1, Put{"k", "v"});
  CHECK(std::holds_alternative<Done>(*hall.told(1)));
}

TEST_CASE("a crowd behind doors pushes out nobody, is pushed out by nobody and may take its time") {
  Hall hall;
  constexpr auto crowd = static_cast<std::uint32_t>(Service::max_handshakes) + 76;
  hall.service.begin_generation({1}, World{0, crowd, {}, {}}, hall.now);
  for (std::uint32_t c = 0; c < crowd; ++c) hall.service.opened(c, hall.now, Service::Peer::neighbour);
  for (std::uint32_t c = crowd; c < 2 * crowd; ++c) hall.service.opened(c, hall.now);
  hall.service.advance(hall.now + Service::handshake_time);
  CHECK(hall.hung_up.size() == crowd);
  CHECK(hall.hung_up.lower_bound(crowd) == hall.hung_up.begin());  // strangers alone
  for (const std::uint32_t c : {0U, crowd - 1}) {
    hall.channels.emplace(c, SecureChannel(SecureChannel::Role::client, hall.key, max_reply));
    hall.pump(c);
    hall.pump(c);
    hall.ask(c, Put{"k", "v"});
    CHECK(std::holds_alternative<Done>(*hall.told(c)));
  }
  hall.service.closed(0, hall.now);
  CHECK(hall.service.connections() == crowd - 1);
}

TEST_CASE("a neighbour with another key is closed all the same") {
  Hall hall;
  hall.service.begin_generation({1}, World{0, 1, {}, {}}, hall.now);
  hall.service.opened(7, hall.now, Service::Peer::neighbour);
  SecureChannel other(SecureChannel::Role::client, random_key(), 1000);
  hall.service.received(7, other.take_output(), hall.now);
  hall.service.received(7, std::string(45, 'x'), hall.now);
  CHECK(hall.hung_up.contains(7));
  CHECK(hall.service.connections() == 0);
}

TEST_CASE("a client with another key is closed and its requests are not heard") {
  Hall hall;
  hall.service.begin_generation({1}, World{0, 1, {}, {}}, hall.now);
  hall.service.opened(7, hall.now);
  SecureChannel other(SecureChannel::Role::client, random_key(), 1000);
  hall.service.received(7, other.take_output(), hall.now);
  CHECK_FALSE(other.receive(hall.inbox[7]));
  hall.service.received(7, std::string(45, 'x'), hall.now);
  CHECK(hall.hung_up.contains(7));
}

TEST_CASE("a member that talks nonsense is closed, and so lost, after what it said before was heard") {
  Hall hall;
  hall.service.begin_generation({1}, World{0, 2, {}, {}}, hall.now);
  for (std::uint32_t c : {0u, 1u}) {
    hall.connect(c);
    hall.ask(c, Join{c, "h", "", 1000});
  }
  REQUIRE(std::holds_alternative<Joined>(*hall.told(0)));
  auto& channel = hall.channels.at(0);
  channel.send(encode(Request{2, 1, Put{"k", "v"}}));
  channel.send("nonsense");
  hall.service.received(0, channel.take_output(), hall.now);
  CHECK(hall.hung_up.contains(0));
  CHECK(std::holds_alternative<Done>(*hall.told(0)));
  REQUIRE(hall.verdicts.size() == 1);
  CHECK(
      describe(hall.verdicts.front()) ==
      "rank 0 on h was lost: the server closed its connection: a rendezvous request of 8 bytes (verb 110) is "
      "malformed");
}

TEST_CASE(
    "a member whose bytes are changed on the way after a good request is closed, and the server goes on") {
  Hall hall;
  hall.service.begin_generation({1}, World{0, 2, {}, {}}, hall.now);
  for (std::uint32_t c : {0u, 1u}) {
    hall.connect(c);
    hall.ask(c, Join{c, "h", "", 1000});
  }
  REQUIRE(std::holds_alternative<Joined>(*hall.told(0)));
  auto& channel = hall.channels.at(0);
  channel.send(encode(Request{2, 1, Put{"k", "v"}}));
  channel.send(encode(Request{3, 1, Put{"l", "w"}}));
  auto bytes = channel.take_output();
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  hall.service.received(0, bytes, hall.now);
  CHECK(hall.hung_up.contains(0));
  REQUIRE(hall.verdicts.size() == 1);
  CHECK(hall.verdicts.front().culprit == 0);
  CHECK(hall.service.connections() == 1);
}

TEST_CASE("random bytes at any point of a connection's life harm nobody else") {
  std::mt19937 random(3);
  Hall hall;
  hall.service.begin_generation({1}, World{0, 2, {}, {}}, hall.now);
  hall.connect(1);
  for (std::uint32_t c = 100; c < 400; ++c) {
    hall.service.opened(c, hall.now);
    SecureChannel client(SecureChannel::Role::client, hall.key, 1000);
    for (std::uint32_t honest = 0; honest < c % 4; ++honest) {
      if (const auto out = client.take_output(); !out.empty()) hall.service.received(c, out, hall.now);
      REQUIRE(client.receive(std::exchange(hall.inbox[c], {})));
      if (honest == 2) client.send(encode(Request{1, 1, Watch{5}}));
    }
    std::string bytes(random() % 200 + 64, '\0');
    for (auto& byte : bytes) byte = static_cast<char>(random());
    hall.service.received(c, bytes, hall.now);
    hall.service.closed(c, hall.now);
  }
  hall.ask(1, Put{"k", "v"});
  CHECK(std::holds_alternative<Done>(*hall.told(1)));
  CHECK(hall.service.connections() == 1);
  CHECK_FALSE(hall.service.next_deadline());
}

namespace {

// A hall of one open world with 15 MiB in 15 keys.
struct FullHall : Hall {
  FullHall() {
    service.begin_generation({1}, World{0, 2, "job", {}}, now);
    connect(1), connect(2);
    for (int i = 0; i < 15; ++i) {
      keys.push_back(fmt::format("big{}", i));
      ask(2, Put{keys.back(), std::string(max_value, 'v')});
      REQUIRE(std::holds_alternative<Done>(*told(2)));
    }
  }
  std::vector<std::string> keys;
};

}  // namespace

TEST_CASE("a member that asks for much and reads late is not cut, nor does the server hold it all") {
  FullHall hall;
  auto& channel = hall.channels.at(1);
  for (std::uint32_t id = 1; id <= 30; ++id) channel.send(encode(Request{id, 1, Wait{hall.keys, 1000}}));
  hall.service.received(1, channel.take_output(), hall.now);
  for (std::uint32_t id = 1; id <= 30; ++id) {
    CHECK(hall.inbox[1].size() < 2 * max_reply);  // of 450 MiB
    while (true) {
      const auto reply = hall.told(1);
      if (reply) {
        REQUIRE(std::holds_alternative<Values>(*reply));
        break;
      }
      REQUIRE_FALSE(hall.inbox[1].size() > 0);
      hall.service.drained(1, hall.now);
      REQUIRE_FALSE(hall.inbox[1].empty());
    }
  }
  CHECK_FALSE(hall.told(1));
  CHECK(hall.hung_up.empty());
}

TEST_CASE(
    "values that were waited for and come all at once fail above the limit, and can be asked for again") {
  FullHall hall;
  auto& channel = hall.channels.at(1);
  auto keys = hall.keys;
  keys.emplace_back("last");
  for (std::uint32_t id = 1; id <= 16; ++id) channel.send(encode(Request{id, 1, Wait{keys, 1000}}));
  hall.service.received(1, channel.take_output(), hall.now);
  hall.ask(2, Put{"last", ""});
  CHECK(hall.inbox[1].size() < Service::max_unsent + 16 * 1024);
  int values = 0, refused = 0;
  while (const auto reply = hall.told(1)) {
    if (std::holds_alternative<Values>(*reply))
      ++values;
    else if (std::get<Failure>(*reply).kind == FailureKind::limit)
      ++refused;
  }
  CHECK(values == 4);
  CHECK(refused == 12);
  hall.ask(1, Wait{keys, 1000});
  CHECK(std::holds_alternative<Values>(*hall.told(1)));
}
