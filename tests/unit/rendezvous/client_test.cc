#include "rendezvous/client.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include "rendezvous/job_key.h"
#include "rendezvous/socket.h"
#include "tests/unit/rendezvous/server.h"

using namespace trainrun;
using namespace trainrun::rendezvous;

TEST_CASE("members in threads use every verb over TCP") {
  Server server(3);
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 3; ++i)
    threads.emplace_back([&server, i] {
      auto client = server.client();
      const auto joined = client.join(Rank{i}, "h", "127.0.0.1", patient);
      REQUIRE(joined);
      CHECK(joined->self.rank == i);
      CHECK(joined->job == "job");
      const auto world = client.world(*joined);
      REQUIRE(world);
      CHECK(world->members.size() == 3);
      CHECK(client.members(Rank{2}, 1).value().front() == world->members[2]);
      auto other = *joined;
      ++other.digest;
      auto gone = server.client();
      CHECK(gone.world(other).error().message.ends_with("the members are not those that joined"));
      const std::string big(1 << 20, static_cast<char>('a' + i));
      CHECK(client.put("big/" + std::to_string(i), big));
      const auto all = client.gather("big/", 3, patient);
      REQUIRE(all);
      CHECK((*all)[2] == std::string(1 << 20, 'c'));
      CHECK(client.barrier("b", {}, patient));
      const auto won = client.compare_and_set("leader", std::nullopt, std::to_string(i));
      REQUIRE(won);
      CHECK(client.get("leader").value() == won->current.value());
      CHECK(client.wait({"leader", "big/0"}, patient)->size() == 2);
      const std::vector<std::string> ids{std::string(128, 'n')};
      if (i == 1) CHECK(client.publish_ids("g", {1, 0, 2}, ids));
      CHECK(client.fetch_ids("g", {1}, 3, patient) == ids);
      CHECK(client.leave());
    });
  for (auto& thread : threads) thread.join();
  CHECK(server.client().watch(patient)->kind == Verdict::Kind::ended);
}

TEST_CASE("a wait in vain fails with its own message, and the connection goes on") {
  Server server(2);
  auto client = server.client();
  const auto waited = client.wait({"k"}, milliseconds(20));
  REQUIRE_FALSE(waited);
  CHECK(waited.error().kind == FailureKind::timeout);
  CHECK(waited.error().message == "nobody has put 'k'");
  CHECK(client.put("k", "v"));
  CHECK(client.get("k") == "v");
}

TEST_CASE("a watch is answered when a member's process dies") {
  Server server(2);
  auto watcher = server.client();
  std::thread victim([&server] {
    auto client = server.client();
    REQUIRE(client.join(Rank{1}, "h1", "", patient));
    // Its connection closes here, without leave.
  });
  auto client = server.client();
  REQUIRE(client.join(Rank{0}, "h0", "", patient));
  victim.join();
  const auto verdict = watcher.watch(patient);
  REQUIRE(verdict);
  CHECK(verdict->kind == Verdict::Kind::lost);
  CHECK(verdict->culprit == 1);
  CHECK(verdict->host == "h1");
  const auto refused = client.put("k", "v");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == FailureKind::over);
  CHECK(refused.error().verdict == *verdict);
}

TEST_CASE("a client with a wrong key says so and does nothing") {
  Server server(1);
  const auto refused = Client::connect(server.address, random_key(), {1}, patient);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == FailureKind::refused);
  CHECK(refused.error().message.find("key") != std::string::npos);
}

TEST_CASE("an address where nobody listens is an error once the time is over") {
  std::string address;
  {
    Server server(1);
    address = server.address;
  }
  const auto refused = Client::connect(address, Key{}, {1}, milliseconds(250));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == FailureKind::disconnected);
  CHECK(refused.error().message.find(address) != std::string::npos);
}

TEST_CASE("an interrupted call returns at once") {
  Server server(1);
  auto client = server.client();
  std::thread other([&client] { client.interrupt(); });
  const auto verdict = client.watch(patient);
  other.join();
  REQUIRE_FALSE(verdict);
  CHECK(verdict.error().kind == FailureKind::disconnected);
  CHECK_FALSE(client.put("k", "v"));
}

TEST_CASE("a client whose server goes away is told so") {
  auto server = std::make_unique<Server>(1);
  auto client = server->client();
  server.reset();
  const auto answer = client.get("k");
  REQUIRE_FALSE(answer);
  CHECK(answer.error().kind == FailureKind::disconnected);
}

TEST_CASE("an address is a host and a port, with brackets for IPv6") {
  CHECK(split_address("gpu1:80") == std::pair<std::string, std::uint16_t>("gpu1", 80));
  CHECK(split_address("[fd00::2]:65535") == std::pair<std::string, std::uint16_t>("fd00::2", 65535));
  for (const auto* bad :
       {"", "gpu1", ":80", "gpu1:", "gpu1:65536", "gpu1:-1", "fd00::2:80", "[]:80", "gpu1:80x"})
    CHECK_FALSE(split_address(bad));
}

TEST_CASE("a key file is private, whole and never overwritten") {
  std::string directory = "/tmp/trainrun-test-XXXXXX";
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  const auto path = directory + "/key";
  const auto key = random_key();
  REQUIRE(write_key_file(path, key));
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(read_key_file(path) == key);
  CHECK_FALSE(write_key_file(path, key));
  CHECK(::chmod(path.c_str(), 0640) == 0);
  CHECK_FALSE(read_key_file(path));
  CHECK(::chmod(path.c_str(), 0600) == 0);
  for (const auto& text :
       std::vector<std::string>{"", "ab", "zz", std::string(63, 'a'), std::string(65, 'a')}) {
    std::ofstream(path, std::ios::trunc) << text;
    CHECK_FALSE(read_key_file(path));
  }
  CHECK_FALSE(read_key_file(directory + "/none"));
  ::unlink(path.c_str());
  ::rmdir(directory.c_str());
}

TEST_CASE("a survivor's connection goes on in the next generation") {
  Server server(1);
  server.begin(2, {7, 8});
  auto client = server.client(2);
  std::thread other([&] { CHECK(server.client(2).join(Rank{1}, "", "", patient, {8})); });
  REQUIRE(client.join(Rank{0}, "", "", patient, {7}, true));
  other.join();
  server.begin(3, {9, 7});
  const auto placed = client.next({7}, patient);
  REQUIRE(placed);
  CHECK(placed->generation == 3);
  CHECK(placed->rank == 1);
  CHECK(client.put("k", "v"));  // of generation 3 now
  server.say([](Service& service) { service.dismiss({7}); });
  const auto removed = client.next({7}, patient);
  REQUIRE_FALSE(removed);
  CHECK(removed.error().kind == FailureKind::removed);
}

TEST_CASE("one ear hears notices, one after another, then the end; in between it tells of progress") {
  Server server(1);
  std::promise<MemberPulse> pulse;
  server.on_event = [&](const Event& event) {
    if (const auto* it = std::get_if<MemberPulse>(&event)) pulse.set_value(*it);
  };
  server.begin(2, {7});
  auto member = server.client(2);
  REQUIRE(member.join(Rank{0}, "", "", patient, {7}));
  auto ear = server.client(2);
  const auto nothing = ear.hear({0}, 0, milliseconds(10));
  REQUIRE_FALSE(nothing);
  CHECK(nothing.error().kind == FailureKind::timeout);
  CHECK(ear.pulse({0, "barrier", 3, false}));
  server.say([](Service& service) { service.announce({2}, Change::added, {}, "one"); });
  server.say([](Service& service) { service.announce({2}, Change::leaving, {7}, "two"); });
  auto heard = ear.hear({0}, 0, patient);
  REQUIRE(heard);
  CHECK(std::get<Notice>(*heard).text == "one");
  heard = ear.hear({0}, 1, patient);
  REQUIRE(heard);
  CHECK(std::get<Notice>(*heard).text == "two");
  CHECK(std::get<Notice>(*heard).stop);
  server.say([](Service& service) { service.member_lost({2}, {0}, "host7", "x", io::Loop::now()); });
  heard = ear.hear({0}, 2, patient);
  REQUIRE(heard);
  CHECK(std::get<Verdict>(*heard).how == "x");
  auto told = pulse.get_future();
  REQUIRE(told.wait_for(patient) == std::future_status::ready);
  CHECK(told.get().said.sequence == 3);
}
