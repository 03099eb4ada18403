#include "rendezvous/adapters/torch_request.h"

#include <doctest/doctest.h>

#include "torch_bytes.h"

namespace trainrun::rendezvous {
namespace {

using Op = TorchRequest::Op;
using namespace torch_bytes;

std::vector<TorchRequest> all_of(TorchRequests& from) {
  std::vector<TorchRequest> found;
  for (;;) {
    auto request = from.next();
    REQUIRE(request.has_value());
    if (!request->has_value()) return found;
    found.push_back(std::move(**request));
  }
}

std::string error_of(const std::string& bytes) {
  TorchRequests requests;
  requests.add(bytes);
  for (;;) {
    auto request = requests.next();
    if (!request) {
      CHECK(request.error().code == Code::protocol);
      return request.error().message;
    }
    if (!request->has_value()) return "";
  }
}

TEST_CASE("a current client greets and counts SET as 1") {
  TorchRequests requests;
  requests.add(greeting + op(13) + number(std::uint32_t{77}) + set("/k", "v") + add("/n", -3) +
               wait({"/a", "/b"}) + op(11) + number(std::uint64_t{1}) + text("/m") + text("w") + op(7) +
               cancel_wait);
  const auto found = all_of(requests);
  REQUIRE(found.size() == 7);
  CHECK(found[0].op == Op::ping);
  CHECK(found[0].number == 77);
  CHECK(found[1].op == Op::set);
  CHECK(found[1].keys == std::vector<std::string>{"/k"});
  CHECK(found[1].values == std::vector<std::string>{"v"});
  CHECK(found[2].op == Op::add);
  CHECK(found[2].number == -3);
  CHECK(found[3].op == Op::wait);
  CHECK(found[3].keys == std::vector<std::string>{"/a", "/b"});
  CHECK(found[4].op == Op::multi_set);
  CHECK(found[4].values == std::vector<std::string>{"w"});
  CHECK(found[5].op == Op::count_keys);
  CHECK(found[6].op == Op::cancel_wait);
  CHECK(requests.empty());
}

TEST_CASE("a client of torch 1.13 does not greet and counts SET as 0") {
  TorchRequests requests;
  requests.add(op(0) + text("/k") + text("v") + op(8) + text("/k") + op(2) + text("/k"));
  const auto found = all_of(requests);
  REQUIRE(found.size() == 3);
  CHECK(found[0].op == Op::set);
  CHECK(found[0].keys == std::vector<std::string>{"/k"});
  CHECK(found[1].op == Op::delete_key);
  CHECK(found[2].op == Op::get);
}

TEST_CASE("bytes that come one at a time say the same") {
  const auto bytes = greeting + set("/key", std::string(300, 'x')) + compare_set("/c", "", "new") +
                     wait({"/a", "/bb"}) + op(14) + text("/q") + text("item");
  TorchRequests requests;
  std::vector<Op> ops;
  for (const char byte : bytes) {
    requests.add({&byte, 1});
    for (const auto& request : all_of(requests)) ops.push_back(request.op);
  }
  CHECK(ops == std::vector<Op>{Op::set, Op::compare_set, Op::wait, Op::queue_push});
  CHECK(requests.empty());
}

TEST_CASE("what is too long or unknown is refused before it is kept") {
  const auto long_key = number(std::uint64_t{TorchRequests::most_key + 1}),
             long_value = number(std::uint64_t{TorchRequests::most_value + 1});
  CHECK(error_of(greeting + op(3) + long_key) == "a key of 8193 bytes, and 8192 is the limit");
  CHECK(error_of(greeting + op(1) + text("/k") + long_value) ==
        "a value of 8388609 bytes, and 8388608 is the limit");
  CHECK(error_of(greeting + op(6) + number(~std::uint64_t{0})) ==
        "18446744073709551615 keys at once, and 131072 is the limit");
  CHECK(error_of(greeting + op(17)) == "request 17 of torch's TCPStore is not known here");
  CHECK(error_of(greeting + greeting) == "request 0 of torch's TCPStore is not known here");
  // From 9 on they mean different things in torch 2.0 and 2.1.
  CHECK(error_of(op(9)) == "request 9 of torch's TCPStore is not known here");
  CHECK(error_of("GET / HTTP/1.1\r\n\r\n") == "request 71 of torch's TCPStore is not known here");

  std::string many = greeting + op(11) + number(std::uint64_t{9});
  for (int i = 0; i < 9; ++i) many += text("/k") + text(std::string(TorchRequests::most_value, 'v'));
  CHECK(error_of(many) == "a request of more than 67108864 bytes");
}

}  // namespace
}  // namespace trainrun::rendezvous
