#include "rendezvous/protocol.h"

#include <doctest/doctest.h>

#include <random>

#include "launcher/base/hash.h"

using namespace trainrun;
using namespace trainrun::rendezvous;

namespace {

std::vector<Request> one_of_each() {
  std::vector<Request> all;
  all.push_back({1, 7, Join{3, "gpu1", "10.0.0.1", 5, true, 9}});
  all.push_back({2, 7, Leave{true}});
  all.push_back({3, 7, Put{"k", std::string("a\0b", 3)}});
  all.push_back({4, 7, Get{"k"}});
  all.push_back({5, 7, Wait{{"a", "b"}, 6}});
  all.push_back({6, 7, CompareAndSet{"k", "old", "new"}});
  all.push_back({7, 7, Gather{"p/", 4, 6}});
  all.push_back({8, 7, Barrier{"b", {0, 2}, 6}});
  all.push_back({9, 7, PublishIds{"g", {1, 2}, {std::string(128, 'i')}}});
  all.push_back({10, 7, FetchIds{"g", 1, 2, 6}});
  all.push_back({11, 7, Watch{6}});
  all.push_back({12, 7, Abort{"why", {1}}});
  all.push_back({13, 7, Next{9, 6}});
  all.push_back({14, 7, News{2, 1, 6}});
  all.push_back({15, 7, Pulse{2, "allreduce", 1ULL << 40, true, 9, 1ULL << 33, 3}});
  all.push_back({16, 7, FetchMembers{1, 2}});
  return all;
}

std::vector<ReplyBody> one_reply_of_each() {
  return {Done{},
          Joined{2, 1, "job", 1ULL << 60, Member{0, "h", "a", 0, 1, 9}},
          Values{{"x", ""}},
          Swapped{true, "v"},
          Over{Verdict{Verdict::Kind::lost, 3, "gpu2", "was killed by SIGKILL", {}}},
          Failure{FailureKind::timeout, "late", 2, {4, 5}, Verdict{}},
          Placed{3, 1},
          Notice{1, Change::leaving, true, "gpu2 will leave", 3},
          Members{{Member{1, "h", "a", 1, 2, 9}, Member{}}}};
}

}  // namespace

TEST_CASE("a request survives its way over the wire") {
  for (const auto& request : one_of_each()) {
    const auto bytes = encode(request);
    const auto back = decode_request(bytes);
    REQUIRE(back);
    CHECK(back->body.index() == request.body.index());
    CHECK(encode(*back) == bytes);
  }
  const auto join = decode_request(encode(one_of_each().front()));
  REQUIRE(join);
  CHECK(std::get<Join>(join->body).rank == 3);
  CHECK(std::get<Join>(join->body).address == "10.0.0.1");
  CHECK(join->generation == 7);
}

TEST_CASE("the digest of the members is that of the specification") {
  CHECK(digest_of({}) == 0xcbf29ce484222325);
  // FNV-1a of: 0, "h", "", 0, 1, 0
  CHECK(digest_of({Member{0, "h", "", 0, 1, 0}}) ==
        fnv1a(std::string("\0\0\0\0\1\0\0\0h\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 25)));
  const Member one{0, "h", "", 0, 1, 1}, other{1, "i", "", 0, 1, 2};
  CHECK(digest_of({one, other}) != digest_of({other, one}));
}

TEST_CASE("a reply survives its way over the wire") {
  for (const auto& body : one_reply_of_each()) {
    const auto bytes = encode_reply(9, body);
    const auto back = decode_reply(bytes);
    REQUIRE(back);
    CHECK(back->id == 9);
    CHECK(encode_reply(back->id, back->body) == bytes);
  }
}

TEST_CASE("the bytes of a put are those of the specification") {
  CHECK(encode(Request{0x01020304, 2, Put{"k", "v"}}) ==
        std::string("\x03\x04\x03\x02\x01\x02\0\0\0\x01\0\0\0k\x01\0\0\0v", 19));
}

TEST_CASE("a message that is cut anywhere, or goes on, is refused") {
  for (const auto& request : one_of_each()) {
    const auto bytes = encode(request);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      CHECK_FALSE(decode_request(bytes.substr(0, size)));
    CHECK_FALSE(decode_request(bytes + '\0'));
  }
  for (const auto& body : one_reply_of_each()) {
    const auto bytes = encode_reply(1, body);
    for (std::size_t size = 0; size < bytes.size(); ++size) CHECK_FALSE(decode_reply(bytes.substr(0, size)));
    CHECK_FALSE(decode_reply(bytes + '\0'));
  }
}

TEST_CASE("random and altered bytes are decoded or refused, never worse") {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    if (round % 2 == 0) {
      bytes.resize(random() % 64);
      for (auto& byte : bytes) byte = static_cast<char>(random());
    } else {
      bytes = encode(one_of_each()[random() % 15]);
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (const auto request = decode_request(bytes)) CHECK(encode(*request) == bytes);
    static_cast<void>(decode_reply(bytes));
  }
}

TEST_CASE("a verb, an enum value or a flag outside its range is refused") {
  CHECK_FALSE(decode_request(std::string("\0\0\0\0\0\0\0\0\0", 9)));
  CHECK_FALSE(decode_request(std::string("\x10\0\0\0\0\0\0\0\0", 9)));
  auto over = encode_reply(1, Over{Verdict{}});
  over[5] = '\4';  // the kind
  CHECK_FALSE(decode_reply(over));
  auto join = encode(Request{1, 1, Join{}});
  join[9] = '\2';  // the flag of the rank
  CHECK_FALSE(decode_request(join));
  auto failure = encode_reply(1, Failure{FailureKind::refused, "", 0, {}, {}});
  CHECK_FALSE(decode_reply(failure));  // a kind that only the client itself may use
  CHECK(decode_reply(encode_reply(1, Failure{FailureKind::removed, "", 0, {}, {}})));
}

TEST_CASE("records come out whole however the stream is cut") {
  const std::string stream = record_length(3) + "abc" + record_length(0) + record_length(5) + "hello";
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    RecordReader reader(5);
    std::vector<std::string> records;
    for (const auto& part : {stream.substr(0, cut), stream.substr(cut)}) {
      reader.feed(part);
      for (;;) {
        const auto record = reader.next();
        REQUIRE(record);
        if (!*record) break;
        records.push_back(**record);
      }
    }
    CHECK(records == std::vector<std::string>{"abc", "", "hello"});
  }
}

TEST_CASE("a record above the limit is refused from its length alone") {
  RecordReader reader(5);
  reader.feed(record_length(6));
  CHECK_FALSE(reader.next());
}

TEST_CASE(
    "a pulse that tells over what a member is connected is no operation, and none that only came out of it") {
  CHECK(Pulse{0, "connected over shm", 0, false}.connected());
  CHECK_FALSE(Pulse{0, "", 0, false}.connected());
  CHECK_FALSE(Pulse{0, "connecting", 0, true}.connected());
  CHECK_FALSE(Pulse{0, "barrier", 1, false}.connected());
  CHECK_FALSE(Pulse{0, "creation of a group", 0, false, 7}.connected());
}

TEST_CASE("there is one NCCL id for each started 128 ranks") {
  CHECK(nccl_id_count(1) == 1);
  CHECK(nccl_id_count(128) == 1);
  CHECK(nccl_id_count(129) == 2);
  CHECK(nccl_id_count(256) == 2);
  CHECK(nccl_id_count(257) == 3);
}
