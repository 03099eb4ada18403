#include "launcher/control/protocol.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace trainrun::control {
namespace {

using Kind = Command::Kind;

Command command(Kind kind) { return {.kind = kind}; }
Command with_rank(Kind kind, int rank) { return {.kind = kind, .host = {}, .rank = rank}; }
Command with_host(Kind kind, Host host) { return {.kind = kind, .host = std::move(host)}; }

TEST_CASE("every request has one line, and the line means that request") {
  const std::vector<std::pair<std::string, Request>> table{
      {R"({"do":"world"})", command(Kind::world)},
      {R"({"do":"remove-host","host":"gpu2"})", with_host(Kind::remove_host, {.name = "gpu2"})},
      {R"({"do":"add-host","host":"gpu9:8"})",
       with_host(Kind::add_host, {.name = "gpu9", .slots = 8, .slots_given = true})},
      {R"({"do":"add-host","host":"gpu9"})", with_host(Kind::add_host, {.name = "gpu9"})},
      {R"({"do":"add-host","host":"me@[fd00::1]:2"})",
       with_host(Kind::add_host, {.name = "fd00::1", .user = "me", .slots = 2, .slots_given = true})},
      {R"({"do":"add-host","host":"ssh://me@gpu9:2222"})",
       with_host(Kind::add_host, {.name = "gpu9", .user = "me", .port = 2222})},
      {R"({"do":"remove-host","host":"[fd00::1]"})", with_host(Kind::remove_host, {.name = "fd00::1"})},
      {R"({"do":"restart"})", command(Kind::restart_world)},
      {R"({"do":"restart-worker","rank":3})", with_rank(Kind::restart_worker, 3)},
      {R"({"do":"stop-worker","rank":0})", with_rank(Kind::stop_worker, 0)},
      {R"({"do":"stop-worker","rank":2147483647})", with_rank(Kind::stop_worker, 2147483647)},
      {R"({"do":"end"})", command(Kind::end)},
      {R"({"do":"version"})", VersionQuestion{}},
  };
  for (const auto& [line, request] : table) {
    CAPTURE(line);
    const auto parsed = parse_request(line);
    REQUIRE(parsed.has_value());
    CHECK(*parsed == request);
    CHECK(to_line(request) == line);
  }
  CHECK(*parse_request(" { \"rank\" : 3 , \"do\":\"stop-worker\"}\r") ==
        Request(with_rank(Kind::stop_worker, 3)));
}

TEST_CASE("what is wrong is said, and what would be right") {
  const std::vector<std::array<std::string, 3>> table{
      {"", "one JSON object", ""},
      {"world", "one JSON object", ""},
      {"[]", "one JSON object", ""},
      {R"({"do":"world"} x)", "one JSON object", ""},
      {"{\"do\":\"wor\xff\"}", "one JSON object", ""},
      {"{}", "does not say what to do", "world, remove-host"},
      {R"({"do":3})", "does not say what to do", "version"},
      {R"({"do":"wrold"})", "no command 'wrold'", "known: world, remove-host, add-host, restart"},
      {R"({"do":"world","rank":1})", "world has no 'rank'", "no other key"},
      {R"({"do":"version","x":1})", "version has no 'x'", "no other key"},
      {R"({"do":"stop-worker","rank":1,"host":"a"})", "stop-worker has no 'host'", "do and rank"},
      {R"({"do":"stop-worker"})", "stop-worker needs a rank", ""},
      {R"({"do":"stop-worker","rank":1,"rank":2})", "twice", ""},
      {R"({"do":"world","do":"end"})", "twice", ""},
      {R"({"do":"stop-worker","rank":-1})", "number from 0", ""},
      {R"({"do":"stop-worker","rank":1.5})", "number from 0", ""},
      {R"({"do":"stop-worker","rank":2147483648})", "number from 0", ""},
      {R"({"do":"stop-worker","rank":99999999999999999999})", "number from 0", ""},
      {R"({"do":"stop-worker","rank":"1"})", "number from 0", ""},
      {R"({"do":"add-host","host":8})", "host is a string", ""},
      {R"({"do":"add-host","host":"a;b"})", "a;b", ""},
      {R"({"do":"add-host","host":"-oProxyCommand=x"})", "-oProxyCommand", ""},
      {R"({"do":"add-host","host":"a\u0000b"})", "a\\x00b", ""},
      {R"({"do":"add-host","host":"gpu[1-4]:8"})", "not one host", "one by one"},
      {R"({"do":"remove-host","host":"gpu2:8"})", "more than a name", "write gpu2"},
      {R"({"do":"remove-host","host":"me@gpu2"})", "more than a name", "write gpu2"},
  };
  for (const auto& [line, message, hint] : table) {
    CAPTURE(line);
    const auto parsed = parse_request(line);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code == Code::usage);
    CAPTURE(parsed.error().message);
    CAPTURE(parsed.error().hint);
    CHECK(parsed.error().message.find(message) != std::string::npos);
    CHECK(parsed.error().hint.find(hint) != std::string::npos);
    CHECK(parsed.error().message.find('\n') == std::string::npos);
  }
}

TEST_CASE("a request may be as long as the limit, and not a byte longer") {
  std::string line = R"({"do":"world"})";
  line.append(longest_request - line.size(), ' ');
  CHECK(parse_request(line).has_value());
  CHECK_FALSE(parse_request(line + " ").has_value());
  CHECK_FALSE(parse_request(std::string(longest_request, '[')).has_value());  // deep, not long
}

TEST_CASE("replies carry a sentence or an error") {
  CHECK(ok_reply() == R"({"ok":true})");
  CHECK(read_reply(ok_reply()).value().empty());
  CHECK(read_reply(ok_reply("gpu2 leaves")).value() == "gpu2 leaves");
  for (const auto code : {Code::usage, Code::try_again, Code::internal, Code::lost}) {
    const Error error{code, "there is no rank 7\n\x1b", "trainrun ctl world"};
    const auto line = error_reply(error);
    CHECK(line.find('\n') == std::string::npos);
    const auto read = read_reply(line);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error() == error);
  }
  CHECK(read_reply(R"({"ok":false,"error":"no"})").error() == Error{Code::internal, "no", ""});
  CHECK(read_reply(R"({"ok":true,"text":"x","newer":[1]})").value() == "x");
  for (const auto* line : {"", "ok", "[]", "{}", R"({"ok":"true"})", "{\"ok\":true"})
    CHECK(read_reply(line).error().code == Code::protocol);
}

TEST_CASE("bytes that are no text become printable, and the line stays JSON") {
  const auto line = error_reply({Code::usage, "a\xff\xfe", "\xc3"});
  CHECK_FALSE(nlohmann::json::parse(line, nullptr, false).is_discarded());
}

TEST_CASE("who answers") {
  const Identity identity{"0.1.0", "0123456789abcdef", 4711, 1790000000, "trainrun -np 2 \"x\" \xff"};
  auto expected = identity;
  expected.command = "trainrun -np 2 \"x\" \xef\xbf\xbd";
  CHECK(read_identity(to_json(identity)).value() == expected);
  CHECK(read_identity(R"({"ok":false,"error":"no"})").error().message == "no");
  CHECK(read_identity(R"({"ok":true,"pid":"x","started":1e99,"version":[]})").value() == Identity{});
}

TEST_CASE("random bytes and damaged requests never do what was not asked") {
  std::mt19937 random(20261121);
  const std::vector<std::string> seeds{R"({"do":"world"})", R"({"do":"add-host","host":"gpu9:8"})",
                                       R"({"do":"restart-worker","rank":3})",
                                       R"({"do":"remove-host","host":"a"})"};
  const std::string_view pieces = "{}[]\",:\\u0 \t\n-+.e19truefalsenull\x80\xff\xc3\x01";
  int accepted = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string line;
    if (i % 2 == 0) {
      line = seeds[random() % seeds.size()];
      for (auto changes = random() % 3 + 1; changes > 0; --changes) {
        const auto at = random() % line.size();
        if (random() % 2 == 0)
          line[at] = pieces[random() % pieces.size()];
        else
          line.insert(at, 1, static_cast<char>(random()));
      }
    } else {
      for (auto size = random() % 64; size > 0; --size) line += pieces[random() % pieces.size()];
    }
    const auto request = parse_request(line);
    if (!request) {
      ++refused;
      const auto reply = error_reply(request.error());
      REQUIRE(reply.find('\n') == std::string::npos);
      REQUIRE(read_reply(reply).error().code == Code::usage);
    } else {
      ++accepted;
      REQUIRE(parse_request(to_line(*request)) == request);
    }
    static_cast<void>(read_reply(line));
    static_cast<void>(read_world(line));
  }
  CHECK(accepted > 100);  // both ways were tried
  CHECK(refused > 10000);
}

}  // namespace
}  // namespace trainrun::control
