#include "rendezvous/adapters/torch_store.h"

#include <doctest/doctest.h>

#include <chrono>
#include <utility>

#include "torch_bytes.h"

namespace trainrun::rendezvous {
namespace {

using namespace torch_bytes;

struct Server {
  std::map<std::uint32_t, std::string> sent, refused;
  std::map<std::uint32_t, std::size_t> unsent;
  TorchStore store{{[this](std::uint32_t to, std::string bytes) { sent[to] += bytes; },
                    [this](std::uint32_t of, std::string why) { refused[of] = std::move(why); },
                    [this](std::uint32_t of) { return unsent[of]; },
                    [this](const TorchClash& clash) { clashes.push_back(clash); }}};
  std::vector<TorchClash> clashes;

  explicit Server(std::uint32_t clients = 3) {
    store.begin({1});
    for (std::uint32_t client = 1; client <= clients; ++client) {
      store.opened(client, Rank{client - 1});
      CHECK(ask(client, greeting).empty());
    }
  }
  std::string ask(std::uint32_t client, const std::string& bytes) {
    sent[client].clear();
    store.received(client, bytes);
    return told(client);
  }
  std::string told(std::uint32_t client) { return std::exchange(sent[client], {}); }
};

const std::string ready(1, '\0'), not_ready(1, '\1'), stopped(1, '\0'), cancelled(1, '\1');

TEST_CASE("what one sets the others get") {
  Server server;
  CHECK(server.ask(1, op(13) + number(std::uint32_t{0xABCD})) == number(std::uint32_t{0xABCD}));
  CHECK(server.ask(1, set("/k", "value")).empty());
  CHECK(server.ask(2, get("/k")) == text("value"));
  CHECK(server.ask(2, get("/none")) == text(""));
  CHECK(server.ask(2, op(9) + text("/k") + text("+more")).empty());
  CHECK(server.ask(3, op(10) + texts({"/k", "/none"})) == text("value+more") + text(""));
  CHECK(server.ask(3, op(7)) == number(std::int64_t{1}));
  CHECK(server.ask(3, delete_key("/k")) == number(std::int64_t{1}));
  CHECK(server.ask(3, delete_key("/k")) == number(std::int64_t{0}));
  CHECK(server.ask(1, check({"/k"})) == not_ready);
}

TEST_CASE("two ranks that come to init_process_group as the same one are told, once a generation") {
  Server server;
  server.ask(1, set("default_pg/0//cpu//0/0", "where rank 0 is"));
  server.ask(1, set("default_pg/0//cpu//0/0", "again"));
  server.ask(2, set("default_pg/0//cpu//0/1", "where rank 1 is"));
  server.ask(3, set("mine/0", "a key of the program's own"));
  server.ask(2, set("mine/0", "which another one sets as well"));
  server.ask(2, set("default_pg/0//cpu//0/x", "no number"));
  server.ask(3, set("default_pg/0//cpu//0/x", "no number"));
  server.ask(2, set("default_pg/0//cuda//0", "an id of NCCL's"));
  server.ask(3, set("default_pg/0//cuda//0", "which is no member's"));
  CHECK(server.clashes.empty());
  server.ask(3, set("default_pg/0//cpu//0/0", "I am rank 0"));
  server.ask(3, set("default_pg/0//cpu//0/1", "and rank 1"));
  REQUIRE(server.clashes.size() == 1);
  CHECK(server.clashes[0].one == Rank{0});
  CHECK(server.clashes[0].other == Rank{2});
  CHECK(server.clashes[0].number == 0);
  server.store.begin({2});
  server.store.opened(4, Rank{1});
  server.ask(4, greeting + set("default_pg/0//cpu//0/0", "another world"));
  server.ask(3, set("default_pg/0//cpu//0/0", "of the old one"));
  CHECK(server.clashes.size() == 1);
}

TEST_CASE("who waits for a member that no group of all ranks has is seen, as long as it waits") {
  Server server;
  server.ask(1, wait({"default_pg/0//cpu//0/1"}));
  CHECK_FALSE(server.store.awaits_beyond(3));
  server.ask(2, wait({"default_pg/0//cpu//0/3"}));
  CHECK(server.store.awaits_beyond(3) == 3);
  CHECK_FALSE(server.store.awaits_beyond(4));
  server.ask(3, set("default_pg/0//cpu//0/3", "it is there"));
  CHECK_FALSE(server.store.awaits_beyond(3));
}

// A copy of the value for each of them would be 160 GB, and stopped the launcher for a minute.
TEST_CASE("a value that grows by many small appends is not copied for each") {
  Server server;
  constexpr std::size_t first = 8u << 20, more = 20000;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  server.ask(1, set("/log", std::string(first, 'a')));
  for (std::size_t i = 0; i < more; ++i) server.ask(1, op(9) + text("/log") + text("b"));
  CHECK(std::chrono::steady_clock::now() < deadline);
  CHECK(server.ask(2, get("/log")) == text(std::string(first, 'a') + std::string(more, 'b')));
}

TEST_CASE("a value does not grow beyond what one answer may be") {
  Server server;
  const std::string piece(8u << 20, 'a');
  for (std::size_t size = 0; size < TorchStore::most_appended; size += piece.size())
    server.ask(1, op(9) + text("/log") + text(piece));
  CHECK(server.refused.empty());
  server.ask(1, op(9) + text("/log") + text("b"));
  CHECK(server.refused[1] == "it appends to a value of more than 64 MiB");
  CHECK(server.ask(2, get("/log")).size() == 8 + TorchStore::most_appended);
}

TEST_CASE("counters are text and may be got as such") {
  Server server;
  CHECK(server.ask(1, add("/n", 41)) == number(std::int64_t{41}));
  CHECK(server.ask(2, add("/n", -1)) == number(std::int64_t{40}));
  CHECK(server.ask(3, get("/n")) == text("40"));
  CHECK(server.ask(1, add("/max", INT64_MAX)) == number(INT64_MAX));
  CHECK(server.ask(1, add("/max", 1)) == number(INT64_MIN));
  server.ask(1, set("/text", "12 apples"));
  server.ask(2, add("/text", 1));
  CHECK(server.refused[2] == "it adds to a value that is no number");
  CHECK(server.ask(3, get("/n")) == text("40"));
}

TEST_CASE("compare and set answers what is there, and what was expected where nothing is") {
  Server server;
  CHECK(server.ask(1, compare_set("/c", "guess", "new")) == text("guess"));
  CHECK(server.ask(1, check({"/c"})) == not_ready);
  CHECK(server.ask(1, compare_set("/c", "", "first")) == text("first"));
  CHECK(server.ask(2, compare_set("/c", "wrong", "second")) == text("first"));
  CHECK(server.ask(2, compare_set("/c", "first", "second")) == text("second"));
}

TEST_CASE("a wait ends with the last of its keys, however that comes") {
  Server server(4);
  CHECK(server.ask(1, wait({"/a", "/b", "/c", "/a"})).empty());
  CHECK(server.ask(2, wait({"/c"})).empty());
  server.ask(3, set("/a", ""));
  server.ask(3, add("/b", 1));
  CHECK(server.told(1).empty());
  server.ask(3, compare_set("/c", "", "x"));
  CHECK(server.told(1) == stopped);
  CHECK(server.told(2) == stopped);
  CHECK(server.ask(4, wait({"/a", "/c"})) == stopped);
}

TEST_CASE("a wait is cancelled by its client's word") {
  Server server;
  CHECK(server.ask(1, wait({"/a"})).empty());
  CHECK(server.ask(1, cancel_wait) == cancelled);
  server.ask(2, set("/a", "late"));
  CHECK(server.told(1).empty());
}

// torch's own server of 1.13 sends the answer all the same: the client takes it for the first byte of the
// next.
TEST_CASE("a client of torch 1.13 that gave up waiting hears no late answer") {
  Server server(1);
  server.store.opened(7, Rank{1});
  CHECK(server.ask(7, op(5) + texts({"/a"})).empty());
  CHECK(server.ask(7, op(3)).empty());  // the number of ADD, the rest comes in a packet of its own
  server.ask(1, set("/a", "late"));
  CHECK(server.told(7).empty());
  CHECK(server.ask(7, text("/n") + number(std::int64_t{42})) == number(std::int64_t{42}));
}

TEST_CASE("what comes into a queue is for one of those who wait") {
  Server server;
  const auto pop = op(15) + text("/q"), length = op(16) + text("/q");
  const auto push = [](const std::string& item) { return op(14) + text("/q") + text(item); };
  CHECK(server.ask(1, pop) == number(std::int64_t{0}));
  CHECK(server.ask(1, wait({"/q"})).empty());
  CHECK(server.ask(2, wait({"/q"})).empty());
  server.ask(3, push("one"));
  CHECK(server.told(1) == stopped);
  CHECK(server.told(2).empty());
  CHECK(server.ask(3, check({"/q"})) == ready);
  CHECK(server.ask(3, length) == number(std::int64_t{1}));
  CHECK(server.ask(1, pop) == number(std::int64_t{1}) + text("one"));
  CHECK(server.ask(3, check({"/q"})) == not_ready);
  server.ask(3, push("two"));
  CHECK(server.told(2) == stopped);
}

TEST_CASE("a new generation begins with nothing, and the old one keeps its own") {
  Server server;
  server.ask(1, set("/k", "old"));
  CHECK(server.ask(2, wait({"/late"})).empty());
  CHECK(server.store.arrivals().ranks == std::set<Rank>{{0}, {1}, {2}});
  server.store.begin({2});
  CHECK(server.store.arrivals().ranks.empty());
  server.store.opened(9, Rank{0});
  server.store.opened(10, std::nullopt);
  CHECK(server.ask(9, greeting + check({"/k"})) == not_ready);
  server.ask(9, set("/late", "new"));
  CHECK(server.told(2).empty());
  CHECK(server.ask(1, get("/k")) == text("old"));
  CHECK(server.store.arrivals().ranks == std::set<Rank>{{0}});
  CHECK(server.store.arrivals().unknown == 1);
}

TEST_CASE("a client that goes is forgotten, and one that breaks the rules is dropped alone") {
  Server server;
  CHECK(server.ask(1, wait({"/a"})).empty());
  server.store.closed(1);
  server.ask(2, op(99));
  CHECK(server.refused[2] == "request 99 of torch's TCPStore is not known here");
  server.ask(3, set("/a", "x"));
  CHECK(server.told(1).empty());
  CHECK(server.ask(2, get("/a")).empty());
  CHECK(server.ask(3, get("/a")) == text("x"));
}

TEST_CASE("a client that does not read is not served until it does") {
  Server server;
  server.ask(1, set("/k", "v"));
  server.unsent[2] = TorchStore::pause_above;
  CHECK(server.ask(2, get("/k") + get("/k")).empty());
  server.unsent[2] = 0;
  server.store.drained(2);
  CHECK(server.told(2) == text("v") + text("v"));
}

TEST_CASE("the store is bounded, and what is deleted makes room") {
  Server server(2);
  const std::string value(TorchRequests::most_value, 'v');
  const auto fits = TorchStore::most_bytes / (value.size() + 5);
  for (std::size_t i = 0; i < fits; ++i) server.ask(1, set("/" + std::to_string(1000 + i), value));
  CHECK(server.refused.empty());
  server.ask(2, delete_key("/1000"));
  server.ask(1, op(14) + text("/q") + text(std::string(TorchRequests::most_value - 64, 'q')));
  CHECK(server.refused.empty());
  server.ask(1, set("/more", value));
  CHECK(server.refused[1] == "the store holds 512 MiB, and no more");
}

}  // namespace
}  // namespace trainrun::rendezvous
