// The hub's own part: whose bytes go where, and that the launcher is told later, not in the middle of a call.
#include "launcher/rendezvous_hub.h"

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <optional>

#include "rendezvous/protocol.h"

using namespace trainrun;
using rendezvous::SecureChannel;

namespace {

// A hub, and one member on stream 1 of host 0.
struct Scene {
  Scene() {
    hub.emplace(
        loop, std::string(reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()),
        [this](HostIndex, StreamId, const std::string& bytes, bool) { inbox += bytes; },
        RendezvousHub::Events{
            [this](Generation, Rank rank) { told.push_back("joined " + std::to_string(rank.value)); },
            [this](Generation, bool elastic) { told.push_back(elastic ? "elastic" : "not elastic"); },
            [this](Generation, const rendezvous::Verdict& it) { told.push_back("broken: " + it.how); },
            [this](Generation g, WorkerId worker) {
              told.push_back("waits " + std::to_string(g.value) + " " + std::to_string(worker.value));
            },
            [this](WorkerId worker, const std::string& op, std::uint64_t sequence, bool) {
              told.push_back(op + std::to_string(sequence) + " of " + std::to_string(worker.value));
            }});
    RendezvousHub::Member member;
    member.worker = WorkerId{7};
    hub->begin({1}, {member});
    hub->opened({0}, {1});
    exchange();
    exchange();
  }
  void exchange() {
    if (const auto out = channel.take_output(); !out.empty()) hub->received({0}, {1}, out, false);
    REQUIRE(channel.receive(std::exchange(inbox, {})));
  }
  template <class Body>
  rendezvous::ReplyBody ask(Body body) {
    channel.send(rendezvous::encode({1, 1, std::move(body)}));
    exchange();
    const auto message = channel.next();
    REQUIRE(message);
    return rendezvous::decode_reply(*message).value().body;
  }
  void turn() {
    loop.context().restart();
    loop.context().poll();
  }

  io::Loop loop;
  rendezvous::Key key = rendezvous::random_key();
  std::string inbox;
  std::vector<std::string> told;
  SecureChannel channel{SecureChannel::Role::client, key, rendezvous::max_reply};
  std::optional<RendezvousHub> hub;
};

using Told = std::vector<std::string>;

}  // namespace

TEST_CASE("what members do is told in a later turn of the loop, in order") {
  Scene scene;
  scene.ask(rendezvous::Join{0, "", "", 1000, true, 7});
  scene.ask(rendezvous::Pulse{0, "allreduce", 5, true});
  CHECK(scene.told.empty());
  scene.turn();
  CHECK(scene.told == Told{"joined 0", "elastic", "allreduce5 of 7"});
  scene.told.clear();
  scene.ask(rendezvous::Abort{"enough", {}});
  scene.turn();
  CHECK(scene.told == Told{"broken: enough"});
}

TEST_CASE("a member that asks for its next place hears of a dismissal") {
  Scene scene;
  scene.channel.send(rendezvous::encode({1, 1, rendezvous::Next{7, 1000}}));
  scene.exchange();
  CHECK_FALSE(scene.channel.next());
  scene.hub->dismiss({7});
  scene.exchange();
  const auto message = scene.channel.next();
  REQUIRE(message);
  const auto body = rendezvous::decode_reply(*message).value().body;
  CHECK(std::get<rendezvous::Failure>(body).kind == rendezvous::FailureKind::removed);
  scene.turn();
  // It gave up a generation that had not formed.
  CHECK(scene.told == Told{"waits 1 7", "broken: it gave up before all members were here"});
}

TEST_CASE("an announcement tells those who are to go so") {
  Scene scene;
  scene.hub->announce({1}, rendezvous::Change::leaving, {WorkerId{7}}, "h will leave");
  const auto body = scene.ask(rendezvous::News{0, 0, 1000});
  CHECK(std::get<rendezvous::Notice>(body).stop);
}

TEST_CASE("nobody is told once the hub is gone") {
  Scene scene;
  scene.ask(rendezvous::Join{0, "", "", 1000, true, 7});
  scene.hub.reset();
  scene.turn();
  CHECK(scene.told.empty());
}
