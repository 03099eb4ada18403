#include "rendezvous/adapters/horovod_request.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

namespace trainrun::rendezvous {
namespace {

using Verb = HorovodRequest::Verb;
using namespace std::string_literals;

std::optional<HorovodRequest> read(std::string_view bytes) {
  HorovodRequestReader reader;
  reader.add(bytes);
  auto request = reader.take();
  REQUIRE(request.has_value());
  return std::move(*request);
}

std::string refusal(std::string_view bytes) {
  HorovodRequestReader reader;
  reader.add(bytes);
  const auto request = reader.take();
  return request ? "" : request.error().message;
}

TEST_CASE("what Horovod's C++ client sends") {
  const auto get = read("GET /global/rank_0 HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 0\r\n\r\n");
  REQUIRE(get);
  CHECK(get->verb == Verb::get);
  CHECK(get->scope == "global");
  CHECK(get->key == "rank_0");
  const auto put = read(
      "PUT /local_worker-0.example/3 HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 5\r\n\r\n\0\1\r\n\2"s);
  REQUIRE(put);
  CHECK(put->verb == Verb::put);
  CHECK(put->scope == "local_worker-0.example");
  CHECK(put->value == "\0\1\r\n\2"s);
  const auto remove = read("DELETE /cross_1/0 HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 0\r\n\r\n");
  REQUIRE(remove);
  CHECK(remove->verb == Verb::remove);
}

TEST_CASE("what Python's urllib sends") {
  const auto put = read(
      "PUT /worker_addresses/node-1:0 HTTP/1.1\r\nAccept-Encoding: identity\r\n"
      "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 4\r\nHost: 127.0.0.1:4242\r\n"
      "User-Agent: Python-urllib/3.11\r\nConnection: close\r\n\r\ngAWV");
  REQUIRE(put);
  CHECK(put->scope == "worker_addresses");
  CHECK(put->key == "node-1:0");
  CHECK(put->value == "gAWV");
}

TEST_CASE("a value of no bytes is a value") {
  const auto put = read("PUT /local_a/0 HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
  REQUIRE(put);
  CHECK(put->value.empty());
}

TEST_CASE("a request that comes byte by byte is the same request") {
  const std::string whole = "PUT /global/1 HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc";
  HorovodRequestReader reader;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const auto early = reader.take();
    REQUIRE(early);
    CHECK_FALSE(early->has_value());
    reader.add(whole.substr(i, 1));
  }
  const auto request = reader.take();
  REQUIRE(request);
  REQUIRE(request->has_value());
  CHECK((*request)->value == "abc");
}

TEST_CASE("what is no such request is refused in words") {
  CHECK(refusal("\x16\x03\x01\r\n\r\n") == "it does not speak HTTP/1.x");
  CHECK(refusal("GET /global/0\r\n\r\n") == "it does not speak HTTP/1.x");
  CHECK(refusal("POST /global/0 HTTP/1.1\r\n\r\n") == "it asks to 'POST'");
  CHECK(refusal("GET /global HTTP/1.1\r\n\r\n") == "'/global' is not /SCOPE/KEY");
  CHECK(refusal("PUT /a/b/c HTTP/1.1\r\nContent-Length: 0\r\n\r\n") == "'/a/b/c' is not /SCOPE/KEY");
  CHECK(refusal("PUT /a/b HTTP/1.1\r\n\r\n") == "a value without its Content-Length");
  CHECK(refusal("PUT /a/b HTTP/1.1\r\nContent-Length: -1\r\n\r\n") == "its Content-Length is no number");
  CHECK(refusal("PUT /a/b HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n") ==
        "its Content-Length is no number");
  CHECK(refusal("PUT /a/b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n") == "it sends its value in chunks");
  CHECK(refusal("PUT /a/b HTTP/1.1\r\nContent-Length: 16777217\r\n\r\n") ==
        "a value of 16777217 bytes, and 16777216 is the limit");
  CHECK(refusal("GET /a/b HTTP/1.1\r\nX: " + std::string(HorovodRequestReader::most_head, 'x')) ==
        "headers of more than 16384 bytes");
}

}  // namespace
}  // namespace trainrun::rendezvous
