// What the hub does for ranks of Horovod.
#include "tests/unit/session/hub_scene.h"

using namespace trainrun;
using hub_test::Scene;
using hub_test::Told;

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

TEST_CASE("a world of Horovod that has met and failed is broken where its ranks accepted each other, once") {
  Scene scene;
  RendezvousHub::Member member;
  member.host = "h";
  member.seat.local_size = member.seat.cross_size = 1;
  member.worker = WorkerId{8};
  // A sockaddr_in for 10.77.0.2:9, as Gloo writes it.
  const std::string address("\x02\0\0\x09\x0a\x4d\0\x02\0\0\0\0\0\0\0\0", 16);
  const auto meet = [&](std::uint32_t generation) {
    member.worker = WorkerId{10 + generation};  // it starts anew, and need not ask for its place
    scene.hub->begin({generation}, {member});
    const std::pair<const char*, std::string> all[] = {{"PUT /global/0", address},
                                                       {"PUT /global/rank_0", address},
                                                       {"PUT /cross_0/0", ""},
                                                       {"DELETE /cross_0/0", ""},
                                                       {"PUT /worker_addresses/h:0", horovod_address}};
    auto stream = 10 * generation;
    for (const auto& [head, body] : all) horovod_request(scene, ++stream, head, body);
  };
  const std::set<Rank> all = {Rank{0}};
  meet(3);
  scene.hub->break_meshes({2}, all);
  CHECK(scene.broken.empty());
  scene.hub->break_meshes({3}, all);
  CHECK(scene.broken == Told{std::string("\x0a\x4d\0\x02\0\x09", 6)});
  scene.hub->break_meshes({3}, all);
  CHECK(scene.broken.size() == 1);
  scene.broken.clear();
  meet(4);
  scene.hub->begin({5}, {member});
  scene.hub->break_meshes({5}, all);
  CHECK(scene.broken.empty());

  // Of a host that is gone the others have the other ends.
  meet(6);
  scene.hub->opened({1}, {70}, wire::DoorKind::horovod, {});
  scene.hub->received({1}, {70}, "PUT /global/1 HTTP/1.1\r\nContent-Length: 0\r\n\r\n", false);
  scene.hub->host_gone({0});
  scene.broken_on = {1};
  scene.hub->break_meshes({6}, all);
  CHECK(scene.broken == Told{std::string("\x0a\x4d\0\x02\0\x09", 6)});
}

TEST_CASE("a world that fails within hvd.init is broken once those who live on are through with it") {
  Scene scene;
  RendezvousHub::Member first, second;
  first.host = second.host = "h";
  first.seat.local_size = second.seat.local_size = 2;
  first.seat.cross_size = second.seat.cross_size = 1;
  second.seat.rank = Rank{1}, second.seat.local_rank = 1;
  first.worker = WorkerId{8}, second.worker = WorkerId{9};
  scene.hub->begin({2}, {first, second});
  const std::string address("\x02\0\0\x09\x0a\x4d\0\x02\0\0\0\0\0\0\0\0", 16);
  std::uint32_t stream = 10;
  const auto say = [&](const char* head, const std::string& body = {}) {
    horovod_request(scene, ++stream, head, body);
  };
  say("PUT /global/0", address);
  say("PUT /worker_addresses/h:0", horovod_address);
  scene.hub->break_meshes({2}, {Rank{0}, Rank{1}});
  SUBCASE("when the last of them is") {
    say("PUT /worker_addresses/h:1", horovod_address);
    say("PUT /cross_1/0");
    say("DELETE /cross_1/0");
  }
  SUBCASE("without one that has ended meanwhile") { scene.hub->break_meshes({2}, {Rank{0}}); }
  CHECK(scene.hub->waits_to_break());
  CHECK(scene.broken.empty());
  say("PUT /cross_0/0");
  CHECK(scene.broken.empty());
  say("DELETE /cross_0/0");
  CHECK_FALSE(scene.hub->waits_to_break());
  CHECK(scene.broken == Told{std::string("\x0a\x4d\0\x02\0\x09", 6)});
}

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
