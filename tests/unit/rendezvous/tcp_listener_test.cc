// What the TCP server does with connections that a Client of ours would not make.
#include "rendezvous/tcp_listener.h"

#include <doctest/doctest.h>

#include "rendezvous/protocol.h"
#include "rendezvous/socket.h"
#include "tests/unit/rendezvous/server.h"

using namespace trainrun;
using namespace trainrun::rendezvous;

namespace {

// Sends when it likes, and reads when it likes.
class Peer {
 public:
  explicit Peer(const Server& server)
      : deadline_(std::chrono::steady_clock::now() + patient),
        socket_(Socket::connect(server.address, deadline_).value()),
        channel_(SecureChannel::Role::client, server.key, max_reply) {
    flush();
    while (!channel_.established()) REQUIRE(channel_.receive(socket_.receive(deadline_).value()));
    flush();
  }
  void say(std::string_view message) {
    channel_.send(message);
    flush();
  }
  template <class Body>
  void ask(Body body) {
    say(encode(Request{++last_id_, 1, std::move(body)}));
  }
  Reply hear() {
    for (;;) {
      if (const auto message = channel_.next()) return decode_reply(*message).value();
      REQUIRE(channel_.receive(socket_.receive(deadline_).value()));
    }
  }

 private:
  void flush() { REQUIRE(socket_.send(channel_.take_output(), deadline_)); }

  Instant deadline_;
  Socket socket_;
  SecureChannel channel_;
  std::uint32_t last_id_ = 0;
};

}  // namespace

TEST_CASE("a member may ask for more than the server keeps for it, and read it all later") {
  Server server(2);
  Peer peer(server);
  peer.ask(Join{0, "h", "", 60'000});
  auto other = server.client();
  REQUIRE(other.join(Rank{1}, "h", "", patient));
  CHECK(std::holds_alternative<Joined>(peer.hear().body));
  std::vector<std::string> keys;
  for (int i = 0; i < 15; ++i) {
    keys.push_back("big" + std::to_string(i));
    REQUIRE(other.put(keys.back(), std::string(max_value, 'v')));
  }
  for (int i = 0; i < 8; ++i) peer.ask(Wait{keys, 1000});  // 120 MiB
  peer.ask(Leave{});
  for (std::uint32_t i = 0; i < 8; ++i) {
    const auto reply = peer.hear();
    CHECK(reply.id == 2 + i);
    REQUIRE(std::holds_alternative<Values>(reply.body));
    CHECK(std::get<Values>(reply.body).values.size() == 15);
  }
  CHECK(std::holds_alternative<Done>(peer.hear().body));
}

TEST_CASE("a member whose connection the server closes is lost for that reason") {
  Server server(2);
  Peer peer(server);
  peer.ask(Join{0, "h", "", 60'000});
  auto other = server.client();
  REQUIRE(other.join(Rank{1}, "h", "", patient));
  peer.say("nonsense");
  CHECK(other.watch(patient)->how ==
        "the server closed its connection: a rendezvous request of 8 bytes (verb 110) is malformed");
}

TEST_CASE("a server that listens on all addresses names one that can be reached") {
  for (const auto* wildcard : {"0.0.0.0:0", "[::]:0"}) {
    io::Loop loop;
    const auto listener = TcpListener::listen(loop, wildcard);
    if (!listener) continue;  // a host without IPv6
    CAPTURE((*listener)->address());
    CHECK((*listener)->address().find("0.0.0.0") == std::string::npos);
    CHECK((*listener)->address().find("[::]") == std::string::npos);
    auto deadline = std::chrono::steady_clock::now() + patient;
    CHECK(Socket::connect((*listener)->address(), deadline));
  }
}
