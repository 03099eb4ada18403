// The bytes of Horovod's notification service: those that its Python writes and reads.
#include "rendezvous/adapters/horovod_notice.h"

#include <doctest/doctest.h>

#include "launcher/base/strings.h"
#include "rendezvous/adapters/pickle.h"
#include "rendezvous/digest.h"

namespace trainrun::rendezvous {
namespace {

using namespace std::string_literals;

std::string counted() {
  std::string key;
  for (char byte = 0; byte < 32; ++byte) key += byte;
  return key;
}

constexpr std::uint32_t loopback = 0x7f000001;

std::string why_not(const std::string& value) {
  const auto service = read_horovod_service(value);
  return service ? "" : service.error().message;
}

}  // namespace

TEST_CASE("the addresses of a worker's service are read as CPython writes them") {
  const auto one = read_horovod_service(
      "gAWVQgAAAAAAAAB9lIwCbG+"
      "UXZSMCTEyNy4wLjAuMZRNB4eGlGFzQyAAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eH5SGlC4=");
  REQUIRE(one);
  CHECK(one->endpoints == std::vector<HorovodEndpoint>{{loopback, 34567}});
  CHECK(one->key == counted());
  const auto three = read_horovod_service(
      "gAWVbgAAAAAAAAB9lCiMBGV0aDCUXZQojAgxMC4wLjAuMZRNQJyGlIwIMTAuMC4wLjKUTUCchpRljAJsb5RdlIwJMTI3LjAuMC4xlE"
      "1AnIaU"
      "YXVDIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4flIaULg==");
  REQUIRE(three);
  CHECK(three->endpoints ==
        std::vector<HorovodEndpoint>{{0x0a000001, 40000}, {0x0a000002, 40000}, {loopback, 40000}});
  CHECK(three->key == counted());
}

TEST_CASE("a value that is used twice is fetched from the memo") {
  // ({'a': l, 'b': l}, key) where l = [('127.0.0.1', 80)]: protocol 2's words.
  const auto pickle = "\x80\x02}q\0(X\1\0\0\0aq\1]q\2X\t\0\0\000127.0.0.1q\3KP\x86q\4aX\1\0\0\0bq\5h\2u"s +
                      "C\x20"s + counted() + "\x86q\6."s;
  const auto read = Pickle::read(pickle);
  REQUIRE(read);
  const auto& interfaces = read->at(read->root().parts[0]);
  REQUIRE(interfaces.parts.size() == 4);
  CHECK(interfaces.parts[1] == interfaces.parts[3]);
}

TEST_CASE("a pickle that would call something is refused, and nothing of it runs") {
  // os.system('true'), by the opcodes of protocols 0, 2 and 4.
  for (const auto& pickle : {"cos\nsystem\n(S'true'\ntR."s,
                             "\x80\x02"
                             "cos\nsystem\nX\4\0\0\0true\x85R."s,
                             "\x80\x04\x8c\2os\x8c\6system\x93\x8c\4true\x85R."s}) {
    const auto read = Pickle::read(pickle);
    REQUIRE_FALSE(read);
    CHECK(read.error().message.find("which is more than data") != std::string::npos);
  }
}

TEST_CASE("what is no pickle, or too much of one, is refused") {
  for (const auto& pickle : {""s, "."s, "("s, "(."s, "(t"s, ")"s, "))."s, ").."s, "a."s, "]]a"s, "K"s,
                             "X\xff\xff\xff\xff."s, "h\0."s, "}()u."s, ")q\0h\1."s, "\x80\x06)."s, "\x95)."s})
    CHECK_FALSE_MESSAGE(Pickle::read(pickle), pickle);
  CHECK(Pickle::read(")."));
  CHECK_FALSE(Pickle::read(std::string(Pickle::most_bytes, ')')));
  // A list that holds itself is data, and no walk of ours ends in it.
  CHECK(Pickle::read("]q\0h\0a."s));
}

TEST_CASE("a value of another shape is told as one") {
  CHECK(why_not("&") == "an address that is not base64");
  CHECK(why_not("KS4=") == "a pickle that is not ({interface: [(address, port), ...]}, key)");  // ()
  CHECK(why_not(std::string(Pickle::most_bytes + 1, 'A')) == "an address that is too long");
  // ({'lo': [('127.0.0.1', 0)]}, key): nobody listens on port 0.
  CHECK(why_not("gAV9jAJsb12MCTEyNy4wLjAuMUsAhmFzQyAAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eH4Yu") ==
        "a pickle that is not ({interface: [(address, port), ...]}, key)");
}

TEST_CASE("a notice is the template that every release of Horovod reads") {
  const auto notice = hosts_updated(counted(), 1700000000, HorovodChange::mixed);
  REQUIRE(notice.size() == 32 + 4 + 89);
  CHECK(hex(notice.substr(0, 32)) == "1cd9725da074a6c6bb9d61a3328d5bdabf130920360e2ac83f31f47c76e5c5fb");
  CHECK(hex(notice.substr(32, 4)) == "59000000");
  CHECK(hex(notice.substr(36)) ==
        "800263686f726f766f642e72756e6e65722e656c61737469632e776f726b65720a486f737473557064617465645265717565"
        "73740a29817d28"
        "580900000074696d657374616d704a00f1536558030000007265734b0375622e");
  const auto later = hosts_updated(counted(), std::int64_t{1} << 31, HorovodChange::added);
  CHECK(hex(later.substr(36)).find("8a080000008000000000") != std::string::npos);
  CHECK(later.substr(later.size() - 5) == "K\2ub.");
}

TEST_CASE("a reply counts when its digest is that of the key and its class is the right one") {
  const auto key = counted();
  const auto reply = [&](const std::string& body, const std::string& by) {
    return keyed_digest(by, body) + std::string(1, static_cast<char>(body.size())) + "\0\0\0"s + body;
  };
  const auto body =
      "\x80\x02"
      "chorovod.runner.common.util.network\nAckResponse\n)\x81."s;
  const auto good = reply(body, key);
  for (std::size_t size = 0; size < good.size(); ++size)
    CHECK(read_horovod_reply(key, good.substr(0, size)) == HorovodReply::incomplete);
  CHECK(read_horovod_reply(key, good) == HorovodReply::acknowledged);
  CHECK(read_horovod_reply(key, good + "x") == HorovodReply::wrong);
  CHECK(read_horovod_reply(key, reply(body, "another")) == HorovodReply::wrong);
  CHECK(read_horovod_reply(key, reply("PingResponse", key)) == HorovodReply::wrong);
  CHECK(read_horovod_reply(key, std::string(36, '\xff')) == HorovodReply::wrong);
}

TEST_CASE("base64 is whole or nothing") {
  CHECK(from_base64("") == "");
  CHECK(from_base64("aGk=") == "hi");
  for (const auto* text : {"a", "aGk", "aGk=x", "aG k=", "aGk=\n", "-_8="})
    CHECK_FALSE_MESSAGE(from_base64(text), text);
}

}  // namespace trainrun::rendezvous
