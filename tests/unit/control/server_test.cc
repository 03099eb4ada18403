#include "tests/unit/control/server.h"

#include <doctest/doctest.h>

namespace trainrun::control {
namespace {

using Kind = Command::Kind;

std::vector<Kind> kinds(const std::vector<Command>& commands) {
  std::vector<Kind> out;
  for (const auto& command : commands) out.push_back(command.kind);
  return out;
}

TEST_CASE("a request reaches the handler, and its reply the client") {
  const Place place;
  Running server(place / "trainrun");
  REQUIRE(server.listening.has_value());
  CHECK(server.path == place / "trainrun/0123456789abcdef.sock");
  RawClient client(server.path);
  CHECK(client.ask(R"({"do":"stop-worker","rank":3})") == R"({"ok":true,"text":"done"})");
  CHECK(server.told() == std::vector<Command>{{.kind = Kind::stop_worker, .host = {}, .rank = 3}});
}

TEST_CASE("several requests in one packet, or one in many, are answered in their order") {
  const Place place;
  Running server(place / "trainrun");
  RawClient client(server.path);
  REQUIRE(client.send("{\"do\":\"restart\"}\n{\"do\":\"nonsense\"}\n{\"do\":\"world\"}\n{\"do\""));
  CHECK(client.line() == R"({"ok":true,"text":"done"})");
  CHECK(client.line().find("no command 'nonsense'") != std::string::npos);
  CHECK(client.line() == R"({"ok":true,"text":"done"})");
  REQUIRE(client.send(":\"en"));
  CHECK(client.ask("d\"}") == R"({"ok":true,"text":"done"})");
  CHECK(kinds(server.told()) == std::vector<Kind>{Kind::restart_world, Kind::world, Kind::end});
}

TEST_CASE("who it is, the server says without its handler") {
  const Place place;
  Running server(place / "trainrun");
  RawClient client(server.path);
  const auto identity = read_identity(client.ask(R"({"do":"version"})"));
  REQUIRE(identity.has_value());
  CHECK(identity->version == TRAINRUN_VERSION);
  CHECK(identity->job == "0123456789abcdef");
  CHECK(identity->pid == ::getpid());
  CHECK(identity->started > 1'700'000'000);
  CHECK(identity->command == "trainrun -np 2 ./train");
  CHECK(server.told().empty());
}

TEST_CASE("two clients at once; one that is slow holds up nobody") {
  const Place place;
  Running server(place / "trainrun");
  RawClient slow(server.path), other(server.path);
  REQUIRE(slow.send("{\"do\":"));
  CHECK(other.ask(R"({"do":"world"})") == R"({"ok":true,"text":"done"})");
  CHECK(slow.ask("\"end\"}") == R"({"ok":true,"text":"done"})");
  CHECK(other.ask(R"({"do":"restart"})") == R"({"ok":true,"text":"done"})");
}

TEST_CASE("a client that does not finish its request is cut off, and its half request is not carried out") {
  const Place place;
  Running server(place / "trainrun", "aa11", milliseconds(30));
  RawClient silent(server.path), half(server.path);
  half.send(R"({"do":"end"})");  // without its end of line; may be too late already
  CHECK(half.line().empty());
  CHECK(silent.line().empty());
  CHECK(server.told().empty());
}

TEST_CASE("a client that does not read its reply is cut off") {
  const Place place;
  Running server(place / "trainrun", "aa11", milliseconds(30));
  server.set_reply(ok_reply(std::string(8 << 20, 'x')));  // more than a socket holds
  do {  // again if this test was so slow that it was cut off before it had asked
    RawClient client(server.path);
    client.send("{\"do\":\"world\"}\n{\"do\":\"world\"}\n");
    REQUIRE(client.hung_up());
  } while (server.told().empty());
  CHECK(server.told().size() == 1);  // the second request waits for the first reply to be taken
}

TEST_CASE("a long reply arrives whole; one beyond the limit is an error") {
  const Place place;
  Running server(place / "trainrun");
  const std::string text(8 << 20, 'x');
  server.set_reply(ok_reply(text));
  RawClient client(server.path);
  CHECK(read_reply(client.ask(R"({"do":"world"})")).value() == text);
  server.set_reply(ok_reply(std::string(longest_reply, 'x')));
  CHECK(read_reply(client.ask(R"({"do":"world"})")).error().code == Code::internal);
}

TEST_CASE("an endless request is refused and its sender cut off") {
  const Place place;
  Running server(place / "trainrun");
  RawClient client(server.path);
  client.send(std::string(longest_request + 100'000, 'x'));  // may be cut off in the middle
  CHECK(read_reply(client.line()).error().code == Code::usage);
  CHECK(client.line().empty());
  RawClient limit(server.path);  // exactly at the limit, and one beyond
  std::string line = R"({"do":"end"})";
  line.append(longest_request - line.size(), ' ');
  CHECK(read_reply(limit.ask(line)).has_value());
  CHECK(read_reply(limit.ask(line + " ")).error().code == Code::usage);
  CHECK(limit.line().empty());
  CHECK(server.told().size() == 1);
}

TEST_CASE("the ninth client is told so, and let in when another has left") {
  const Place place;
  Running server(place / "trainrun");
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.path));
    REQUIRE(read_reply(clients.back()->ask(R"({"do":"world"})")).has_value());
  }
  RawClient ninth(server.path);
  CHECK(read_reply(ninth.line()).error().code == Code::try_again);
  CHECK(ninth.line().empty());
  clients.pop_back();
  const auto deadline = io::Loop::now() + seconds(60);  // the server hears of the departure in its own time
  for (;;) {
    RawClient next(server.path);
    if (read_reply(next.ask(R"({"do":"world"})")).has_value()) break;
    REQUIRE(io::Loop::now() < deadline);
  }
  CHECK(read_reply(clients.front()->ask(R"({"do":"world"})")).has_value());
}

TEST_CASE("a handler may destroy the server; its last reply still goes out") {
  const Place place;
  Running server(place / "trainrun");
  server.destroy_at_end();
  RawClient other(server.path), client(server.path);
  REQUIRE(read_reply(other.ask(R"({"do":"world"})")).has_value());
  REQUIRE(client.send("{\"do\":\"end\"}\n{\"do\":\"world\"}\n"));
  CHECK(client.line() == R"({"ok":true,"text":"done"})");
  CHECK(client.line().empty());
  CHECK(other.line().empty());
  CHECK_FALSE(exists(server.path));
  CHECK(kinds(server.told()) == std::vector<Kind>{Kind::world, Kind::end});
}

TEST_CASE("the socket is removed at the end, but only the server's own") {
  const Place place;
  std::string path;
  {
    Running server(place / "trainrun");
    path = server.path;
    CHECK(exists(path));
  }
  CHECK_FALSE(exists(path));
  Fd newer;
  {
    Running server(place / "trainrun");
    REQUIRE(::unlink(path.c_str()) == 0);
    newer = raw_listener(path);
  }
  CHECK(exists(path));
}

TEST_CASE("the last launcher takes the directory with it") {
  const Place place;
  {
    const Running first(place / "own", "aa");
    {
      const Running second(place / "own", "bb");
      REQUIRE(second.listening);
    }
    CHECK(exists(place / "own/aa.sock"));
  }
  CHECK_FALSE(exists(place / "own"));
  const Running again(place / "own", "aa");
  CHECK(again.listening);
}

TEST_CASE("a dead launcher's socket is removed by the next one") {
  const Place place;
  REQUIRE(::mkdir((place / "trainrun").c_str(), 0700) == 0);
  raw_listener(place / "trainrun/dead1f.sock").reset();
  raw_listener(place / "trainrun/dead.sock").reset();
  Running server(place / "trainrun");
  CHECK(server.listening.has_value());
  CHECK_FALSE(exists(place / "trainrun/dead1f.sock"));
  CHECK_FALSE(exists(place / "trainrun/dead.sock"));
}

TEST_CASE("a place that is not safe is an error of listen, and nothing is put there") {
  const Place place;
  REQUIRE(::mkdir((place / "open").c_str(), 0700) == 0);
  REQUIRE(::chmod((place / "open").c_str(), 0777) == 0);
  REQUIRE(::mkdir((place / "real").c_str(), 0700) == 0);
  REQUIRE(::symlink((place / "real").c_str(), (place / "link").c_str()) == 0);
  for (const auto* name : {"open", "link"}) {
    Running server(place / name);
    REQUIRE_FALSE(server.listening.has_value());
    CHECK(server.listening.error().code == Code::refused);
    CHECK(std::filesystem::is_empty(place / name));
  }
  Running nowhere(place / "a/b");
  CHECK_FALSE(nowhere.listening.has_value());
}

}  // namespace
}  // namespace trainrun::control
