// The hub's own part: whose bytes go where, and that the launcher is told later, not in the middle of a call.
#include "tests/unit/session/hub_scene.h"

using namespace trainrun;
using hub_test::Scene;
using hub_test::Told;

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
