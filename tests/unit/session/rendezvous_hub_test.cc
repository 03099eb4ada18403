// The hub's own part: whose bytes go where, and that the launcher is told later, not in the middle of a call.
#include "launcher/rendezvous_hub.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <optional>

#include "launcher/wire/frame.h"
#include "launcher/wire/messages.h"
#include "rendezvous/protocol.h"

using namespace trainrun;
using rendezvous::SecureChannel;

namespace {

// A hub, and one member on stream 1 of host 0.
struct Scene {
  Scene() {
    hub.emplace(
        loop, std::string(reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()),
        [this](HostIndex, StreamId, const std::string& bytes, bool end) {
          inbox += bytes;
          longest = std::max(longest, bytes.size());
          ended += end ? 1 : 0;
        },
        RendezvousHub::Events{
            [this](Generation, Rank rank) { told.push_back("joined " + std::to_string(rank.value)); },
            [this](Generation, bool elastic) { told.push_back(elastic ? "elastic" : "not elastic"); },
            [this](Generation, const rendezvous::Verdict& it) { told.push_back("broken: " + it.how); },
            [this](Generation g, WorkerId worker) {
              told.push_back("waits " + std::to_string(g.value) + " " + std::to_string(worker.value));
            },
            [this](Generation, WorkerId worker, const rendezvous::Pulse& pulse) {
              told.push_back(pulse.op + std::to_string(pulse.sequence) + " of " +
                             std::to_string(worker.value));
            },
            nullptr, [this](HostIndex, const std::string& why) { told.push_back("refused: " + why); },
            nullptr, [this](HostIndex, const std::string& why) { told.push_back("not Horovod's: " + why); },
            nullptr, [this](Generation g) { told.push_back("Horovod's " + std::to_string(g.value)); },
            [this](WorkerId worker) { told.push_back("hopeless " + std::to_string(worker.value)); },
            [this](Generation, Rank rank) { told.push_back("deserted " + std::to_string(rank.value)); },
            [this](WorkerId worker, const std::string& why) {
              told.push_back("unreachable " + std::to_string(worker.value) + ": " + why);
            }},
        [this](HostIndex, StreamId, std::uint64_t bytes) { credit += bytes; },
        [this](HostIndex host, const wire::OpenStream& order) {
          CHECK(host == HostIndex{0});
          streams.push_back(order);
        });
    RendezvousHub::Member member;
    member.worker = WorkerId{7};
    hub->begin({1}, {member});
    hub->opened({0}, {1});
    exchange();
    exchange();
  }
  void exchange() {
    if (const auto out = channel.take_output(); !out.empty()) hub->received({0}, {1}, out, false);
    while (!inbox.empty()) {
      const auto bytes = std::exchange(inbox, {});
      REQUIRE(channel.receive(bytes));
      hub->taken({0}, {1}, bytes.size());
    }
  }
  template <class Body>
  rendezvous::ReplyBody ask(Body body) {
    channel.send(rendezvous::encode({1, 1, std::move(body)}));
    exchange();
    const auto message = channel.next();
    REQUIRE(message);
    return rendezvous::decode_reply(*message).value().body;
  }
  // Reads all that comes, as a member behind a door does, until nothing more does; how many replies it were.
  std::size_t read_all() {
    std::size_t replies = 0;
    while (!inbox.empty()) {
      const auto bytes = std::exchange(inbox, {});
      REQUIRE(channel.receive(bytes));
      while (channel.next()) ++replies;
      hub->taken({0}, {1}, bytes.size());
    }
    return replies;
  }
  void turn() {
    loop.context().restart();
    loop.context().poll();
  }

  io::Loop loop;
  rendezvous::Key key = rendezvous::random_key();
  std::string inbox;
  std::size_t longest = 0;  // of the frames
  int ended = 0;
  std::uint64_t credit = 0;
  std::vector<std::string> told;
  std::vector<wire::OpenStream> streams;
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

TEST_CASE("a stream of the door of torch's store meets that store, and the others stay as they are") {
  Scene scene;
  const std::string greeting("\0\xCE\xF7\x85\x3C", 5), ping("\x0D\1\2\3\4", 5);
  scene.hub->opened({0}, {2}, wire::DoorKind::torch_store, Rank{0});
  scene.hub->received({0}, {2}, greeting + ping, false);
  CHECK(scene.inbox == ping.substr(1));
  scene.inbox.clear();
  scene.hub->opened({0}, {3}, wire::DoorKind::torch_store, {});
  scene.hub->received({0}, {3}, "GET / HTTP/1.1\r\n", false);
  CHECK(scene.ended == 1);
  CHECK(scene.told.empty());
  scene.turn();
  CHECK(scene.told == Told{"refused: request 71 of torch's TCPStore is not known here"});
  scene.hub->received({0}, {2}, ping, true);
  CHECK(scene.inbox == ping.substr(1));
  CHECK(scene.ended == 2);
  scene.inbox.clear();
  scene.ask(rendezvous::Join{0, "", "", 1000, true, 7});
}

TEST_CASE("a stream of Horovod's door gets one reply and its end") {
  Scene scene;
  scene.hub->opened({0}, {2}, wire::DoorKind::horovod, {});
  scene.hub->received({0}, {2}, "PUT /cross_0/0 HTTP/1.1\r\nContent-Length: 0\r\n\r\n", false);
  CHECK(scene.inbox == "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n");
  CHECK(scene.ended == 1);
  scene.inbox.clear();
  scene.hub->opened({0}, {3}, wire::DoorKind::horovod, {});
  scene.hub->received({0}, {3}, "GET /global/0 HTTP/1.1\r\n\r\n", false);
  CHECK(scene.inbox.empty());
  scene.hub->member_left({1}, {0});
  CHECK(scene.inbox == "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n");
  CHECK(scene.ended == 2);
  scene.inbox.clear();
  scene.hub->opened({0}, {4}, wire::DoorKind::horovod, {});
  scene.hub->received({0}, {4}, "hello\r\n\r\n", false);
  scene.inbox.clear();
  scene.turn();
  CHECK(scene.told == Told{"not Horovod's: it does not speak HTTP/1.x"});
  scene.ask(rendezvous::Join{0, "", "", 1000, true, 7});
}

namespace {

// 127.0.0.1:34567, and the key 00..1f.
constexpr const char* horovod_address =
    "gAWVQgAAAAAAAAB9lIwCbG+"
    "UXZSMCTEyNy4wLjAuMZRNB4eGlGFzQyAAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eH5SGlC4=";

void horovod_request(Scene& scene, std::uint32_t stream, const std::string& head, const std::string& body) {
  scene.hub->opened({0}, {stream}, wire::DoorKind::horovod, {});
  scene.hub->received(
      {0}, {stream}, head + " HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body,
      false);
}

}  // namespace

TEST_CASE("what elastic ranks of Horovod do is told, and who has no place is to be ended") {
  Scene scene;
  auto say = [&scene, stream = 10u](const std::string& head) mutable {
    horovod_request(scene, ++stream, head, head.starts_with("PUT /worker_addresses/") ? horovod_address : "");
    scene.inbox.clear();
  };
  RendezvousHub::Member member;
  member.host = "h";
  member.seat.local_size = member.seat.cross_size = 1;
  member.worker = WorkerId{8};
  scene.hub->begin({2}, {member});
  for (const auto* head :
       {"PUT /global/0", "PUT /cross_0/0", "DELETE /cross_0/0", "PUT /worker_addresses/h:0"})
    say(head);
  scene.turn();
  CHECK(scene.told == Told{"Horovod's 2"});
  scene.told.clear();
  say("GET /rank_and_size/h:0");
  scene.turn();
  CHECK(scene.told == Told{"waits 2 8"});
  scene.told.clear();
  scene.hub->dismiss({8});
  scene.turn();
  CHECK(scene.told == Told{"hopeless 8"});
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
  REQUIRE(scene.told.size() == 2);
  CHECK(scene.told[0] == "waits 1 7");
  CHECK(scene.told[1].find(" gave up before all members were here") != std::string::npos);
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

TEST_CASE("a reply above the limit of a frame goes out in pieces below it, whole and in order") {
  Scene scene;
  std::vector<std::string> values, keys;
  for (char letter = 'a'; letter < 'j'; ++letter) {
    values.emplace_back(1'000'000, letter);
    keys.emplace_back(1, letter);
    scene.ask(rendezvous::Put{keys.back(), values.back()});
  }
  const auto body = scene.ask(rendezvous::Wait{keys, 1000});
  CHECK(std::get<rendezvous::Values>(body).values == values);
  CHECK(scene.longest < wire::frame_limit / 2);
}

TEST_CASE("a reply of many megabytes comes in pieces, no more than a window at once") {
  Scene scene;
  const std::string value(1 << 20, 'v');
  std::vector<std::string> keys;
  for (int i = 0; i < 9; ++i) {
    keys.push_back("k" + std::to_string(i));
    scene.ask(rendezvous::Put{keys.back(), value});
  }
  scene.longest = 0;
  scene.channel.send(rendezvous::encode({1, 1, rendezvous::Wait{keys, 1000}}));
  scene.hub->received({0}, {1}, scene.channel.take_output(), false);
  CHECK(scene.inbox.size() <= wire::stream_window);
  CHECK(scene.read_all() == 1);
  CHECK(scene.longest < wire::frame_limit / 2);
}

TEST_CASE("a member that asks for much and reads nothing is not read any more, and loses nothing") {
  Scene scene;
  const std::string value(1 << 20, 'v');
  scene.ask(rendezvous::Put{"k", value});
  CHECK(scene.credit > value.size());  // what it said has been taken
  const auto before = scene.credit;
  constexpr std::size_t questions = 40;
  for (std::size_t i = 0; i < questions; ++i)
    scene.channel.send(rendezvous::encode({1, 1, rendezvous::Get{"k"}}));
  scene.channel.send(rendezvous::encode({1, 1, rendezvous::Put{"l", value}}));
  scene.hub->received({0}, {1}, scene.channel.take_output(), false);
  CHECK(scene.inbox.size() <= wire::stream_window);
  CHECK(scene.credit == before);
  CHECK(scene.read_all() == questions + 1);
  CHECK(scene.credit > before);
  CHECK(scene.ended == 0);
}

TEST_CASE("a connection that the service closes ends after what was sent to it, however late that is read") {
  Scene scene;
  scene.ask(rendezvous::Put{"k", std::string(1 << 20, 'v')});
  for (int i = 0; i < 3; ++i) scene.channel.send(rendezvous::encode({1, 1, rendezvous::Get{"k"}}));
  scene.channel.send("nonsense");
  scene.hub->received({0}, {1}, scene.channel.take_output(), false);
  CHECK(scene.ended == 0);
  CHECK(scene.read_all() == 3);
  CHECK(scene.ended == 1);
}

TEST_CASE("a wait ends when its time has passed, however often the hub was asked for the same meanwhile") {
  Scene scene;
  scene.ask(rendezvous::Join{0, "", "", 60'000, true, 7});
  for (const std::uint32_t ms : {60'000u, 300u, 60'001u, 60'002u})
    scene.channel.send(rendezvous::encode({ms, 1, rendezvous::Wait{{"k"}, ms}}));
  scene.exchange();
  REQUIRE_FALSE(scene.channel.next());
  io::Timer limit(scene.loop);
  limit.arm(io::Loop::now() + seconds(30), [&] { scene.loop.stop(); });
  scene.loop.context().restart();
  while (scene.inbox.empty() && limit.armed()) scene.loop.context().run_one();
  scene.exchange();
  const auto message = scene.channel.next();
  REQUIRE(message);
  CHECK(rendezvous::decode_reply(*message).value().id == 300);
  CHECK_FALSE(scene.channel.next());

  // The next deadline is watched again, too.
  scene.channel.send(rendezvous::encode({301, 1, rendezvous::Wait{{"k"}, 300}}));
  scene.exchange();
  while (scene.inbox.empty() && limit.armed()) scene.loop.context().run_one();
  scene.exchange();
  const auto last = scene.channel.next();
  REQUIRE(last);
  CHECK(rendezvous::decode_reply(*last).value().id == 301);
}

TEST_CASE("with a host go its own streams, and no others") {
  Scene scene;
  const std::string greeting("\0\xCE\xF7\x85\x3C", 5), ping("\x0D\1\2\3\4", 5);
  for (const std::uint32_t host : {1u, 2u, 3u})
    for (const std::uint32_t stream : {0u, 9u}) {
      scene.hub->opened({host}, {stream}, wire::DoorKind::torch_store, {});
      scene.hub->received({host}, {stream}, greeting, false);
    }
  scene.hub->host_gone({2});
  for (const std::uint32_t host : {1u, 2u, 3u})
    for (const std::uint32_t stream : {0u, 9u}) {
      INFO("stream " << stream << " of host " << host);
      scene.inbox.clear();
      scene.hub->received({host}, {stream}, ping, false);
      CHECK(scene.inbox == (host == 2 ? std::string() : ping.substr(1)));
    }
  CHECK(scene.ended == 2);  // one that is not known is told so
  scene.inbox.clear();
  scene.ask(rendezvous::Join{0, "", "", 1000, true, 7});
}

TEST_CASE("an elastic rank of Horovod is told of a change by a stream of the launcher's") {
  Scene scene;
  horovod_request(scene, 101, "PUT /worker_addresses/:0", horovod_address);
  scene.hub->announce({2}, rendezvous::Change::added, {}, "");  // of another world
  CHECK(scene.streams.empty());
  scene.inbox.clear();
  scene.hub->announce({1}, rendezvous::Change::leaving, {}, "");
  REQUIRE(scene.streams.size() == 1);
  CHECK(scene.streams[0].address == 0x7f000001);
  CHECK(scene.streams[0].port == 34567);
  CHECK(scene.inbox.find("HostsUpdatedRequest") != std::string::npos);
  const auto ended = scene.ended;
  scene.hub->refused({1}, {scene.streams[0].stream, ECONNREFUSED});  // another host's
  CHECK(scene.ended == ended);
  scene.hub->refused({0}, {scene.streams[0].stream, ECONNREFUSED});
  scene.turn();
  CHECK(scene.told.back() == "unreachable 7: Connection refused");
  // One that writes down something else.
  horovod_request(scene, 102, "PUT /worker_addresses/:0", "Y29zCnN5c3RlbQo=");
  scene.turn();
  CHECK(scene.told.back() ==
        "unreachable 7: its address is a pickle with the opcode 0x63, which is more than data");
}
