#include "rendezvous/adapters/horovod_http.h"

#include <doctest/doctest.h>

#include <utility>

namespace trainrun::rendezvous {
namespace {

using Seats = std::vector<HorovodHttp::Seat>;

std::string ok(const std::string& value = {}) {
  return "HTTP/1.0 200 OK\r\nContent-Length: " + std::to_string(value.size()) + "\r\n\r\n" + value;
}
const std::string missing = "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n";
const std::string bad = "HTTP/1.0 400 Bad Request\r\nContent-Length: 0\r\n\r\n";

// worker-0:1,worker-1:2
const Seats three = {{{0}, "worker-0", 0, 1, 0, 2, {1}},
                     {{1}, "worker-1", 0, 2, 1, 2, {2}},
                     {{2}, "worker-1", 1, 2, 0, 1, {3}}};

struct Server {
  std::map<std::uint32_t, std::string> sent;
  std::map<std::uint32_t, std::string> closed;  // why
  std::uint32_t last = 0;
  std::vector<Rank> deserters;
  HorovodHttp http{
      {[this](std::uint32_t to, std::string bytes) {
         CHECK_FALSE(closed.contains(to));
         sent[to] += bytes;
       },
       [this](std::uint32_t of, std::string why) { CHECK(closed.emplace(of, std::move(why)).second); },
       {},
       {},
       {},
       {},
       {},
       [this](Rank rank) { deserters.push_back(rank); }}};

  explicit Server(const Seats& world = three) { http.begin(world); }

  std::uint32_t begin(const std::string& bytes) {
    http.opened(++last);
    http.received(last, bytes);
    return last;
  }
  std::uint32_t begin_get(const std::string& path) {
    return begin("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n");
  }
  std::string get(const std::string& path) { return sent[begin_get(path)]; }
  std::string put(const std::string& path, const std::string& value) {
    return sent[begin("PUT " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " +
                      std::to_string(value.size()) + "\r\n\r\n" + value)];
  }
  std::string remove(const std::string& path) {
    return sent[begin("DELETE " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n")];
  }
};

TEST_CASE("each request gets one reply, byte for byte, and the connection is closed") {
  Server server;
  CHECK(server.put("/any/key", "value") == ok());
  CHECK(server.get("/any/key") == ok("value"));
  CHECK(server.put("/any/key", "") == ok());
  CHECK(server.get("/any/key") == ok(""));
  CHECK(server.get("/any/other") == missing);
  CHECK(server.get("/none/key") == missing);
  CHECK(server.remove("/any/key") == ok());
  CHECK(server.get("/any/key") == missing);
  CHECK(server.remove("/none/at-all") == ok());
  CHECK(server.closed.size() == server.last);
  for (const auto& [connection, why] : server.closed) CHECK(why.empty());
}

TEST_CASE("nobody gets an address before all of a mesh have left theirs") {
  Server server;
  server.put("/global/0", "A");
  const auto first = server.begin_get("/global/0"), second = server.begin_get("/global/2");
  server.put("/global/1", "B");
  CHECK(server.sent[first].empty());
  server.put("/global/1", "B again");
  CHECK(server.sent[first].empty());
  server.put("/global/2", "");
  CHECK(server.sent[first] == ok("A"));
  CHECK(server.sent[second] == ok(""));
  CHECK(server.get("/global/1") == ok("B again"));
}

TEST_CASE("the local and the cross mesh are as large as the world says") {
  Server server;
  server.put("/local_worker-1/0", "a");
  const auto of_local = server.begin_get("/local_worker-1/0");
  server.put("/cross_0/0", "x");
  const auto of_cross = server.begin_get("/cross_0/1");
  CHECK(server.sent[of_local].empty());
  CHECK(server.sent[of_cross].empty());
  server.put("/local_worker-1/1", "b");
  server.put("/cross_0/1", "y");
  CHECK(server.sent[of_local] == ok("a"));
  CHECK(server.sent[of_cross] == ok("y"));
  server.put("/local_worker-0/0", "");
  CHECK(server.get("/local_worker-0/0") == ok(""));
  server.put("/cross_1/0", "");
  CHECK(server.get("/cross_1/0") == ok(""));
}

TEST_CASE("names of hosts are told at once") {
  Server server;
  CHECK(server.get("/global/rank_0") == missing);
  server.put("/global/rank_0", "worker-0");
  CHECK(server.get("/global/rank_0") == ok("worker-0"));
}

TEST_CASE("a mesh that was made and finished is made anew") {
  Server server;
  for (const char* round : {"1", "2"}) {
    for (const char* rank : {"0", "1", "2"}) {
      server.put(std::string("/global/rank_") + rank, "host");
      server.put(std::string("/global/") + rank, round);
    }
    CHECK(server.get("/global/0") == ok(round));
    // Those of other meshes must not count: with hosts of one rank Horovod's own server keeps dead addresses.
    CHECK(server.remove("/local_worker-0/0") == ok());
    for (const char* rank : {"0", "1", "2"}) server.remove(std::string("/global/") + rank);
    CHECK(server.get("/global/rank_1") == missing);
    const auto waits = server.begin_get("/global/0");
    CHECK(server.sent[waits].empty());
    server.http.closed(waits);
  }
}

TEST_CASE("an address in a process set is waited for by itself") {
  Server server;
  const std::string scope = "/global_process_set_hash_5f3a";
  const auto zero = server.begin_get(scope + "/0"), one = server.begin_get(scope + "/1");
  server.put(scope + "/1", "B");
  CHECK(server.sent[zero].empty());
  CHECK(server.sent[one] == ok("B"));
  server.put(scope + "/0", "A");
  CHECK(server.sent[zero] == ok("A"));
  server.remove(scope + "/0");
  CHECK(server.get(scope + "/rank_0") == missing);
}

TEST_CASE("rank_and_size is what the variables of that rank say") {
  Server server;
  CHECK(server.get("/rank_and_size/worker-0:0") == ok("0,3,0,1,0,2"));
  CHECK(server.get("/rank_and_size/worker-1:0") == ok("1,3,0,2,1,2"));
  CHECK(server.get("/rank_and_size/worker-1:1") == ok("2,3,1,2,0,1"));
  CHECK(server.get("/rank_and_size/worker-2:0") == ok("-1,-1,-1,-1,-1,-1"));
}

TEST_CASE("once a rank has ended nobody is held: Gloo's own time-out counts") {
  Server server;
  server.put("/global/0", "A");
  const auto waits = server.begin_get("/global/1");
  server.http.left({2});
  CHECK(server.sent[waits] == missing);
  CHECK(server.get("/global/1") == missing);
  CHECK(server.get("/global/0") == ok("A"));
  CHECK(server.get("/global_process_set_hash_1/0") == missing);
}

TEST_CASE("whoever ended without coming is told once others wait, in either order") {
  Server server;
  server.http.left({2});
  CHECK(server.deserters.empty());
  server.put("/global/rank_0", "host");
  CHECK(server.deserters == std::vector{Rank{2}});
  CHECK(server.http.awaits({1}));
  CHECK_FALSE(server.http.awaits({0}));
  server.http.left({1});
  CHECK(server.deserters == std::vector{Rank{2}, Rank{1}});
  server.http.left({0});
  server.put("/global/0", "A");
  CHECK(server.deserters.size() == 2);
  server.http.begin(three);
  server.http.left({1});
  CHECK(server.deserters.size() == 2);
}

TEST_CASE("each generation has values of its own, and a late word of the old one changes nothing") {
  Server server;
  server.put("/global/0", "old");
  server.http.opened(99);  // of the old generation
  server.http.begin({{{0}, "worker-0", 0, 1, 0, 1}});
  server.http.received(99, "PUT /global/0 HTTP/1.1\r\nContent-Length: 4\r\n\r\nlate");
  CHECK(server.sent[99] == ok());
  CHECK(server.http.arrivals().empty());
  const auto waits = server.begin_get("/global/0");
  CHECK(server.sent[waits].empty());
  server.put("/global/0", "new");
  CHECK(server.sent[waits] == ok("new"));
}

TEST_CASE("who has come is known by what it leaves in the mesh of all") {
  Server server;
  server.put("/local_worker-1/0", "");
  CHECK(server.http.arrivals().empty());
  server.put("/global/rank_2", "worker-1");
  CHECK(server.http.arrivals() == std::set<Rank>{{2}});
  server.put("/global/0", "A");  // Horovod before 0.23 has no names
  server.put("/global/7", "A");
  CHECK(server.http.arrivals() == std::set<Rank>{{0}, {2}});
}

TEST_CASE("a program that leaves the address of its notification service is elastic") {
  Server server;
  server.put("/global/rank_0", "worker-0");
  CHECK_FALSE(server.http.elastic());
  CHECK(server.put(
            "/worker_addresses/worker-0:0",
            "gAWVQgAAAAAAAAB9lIwCbG+UXZSMCTEyNy4wLjAuMZRNB4eGlGFzQyAAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0e"
            "H5SGlC4=") == ok());
  CHECK(server.http.elastic());
  auto anew = three;
  for (auto& seat : anew) seat.worker.value += 3;
  server.http.begin(anew);
  CHECK_FALSE(server.http.elastic());
}

TEST_CASE("a survivor's question is kept until the newcomer has left its address") {
  Server server;
  for (const char* local : {"0", "1"}) server.put("/worker_addresses/worker-1:" + std::string(local), "x");
  auto next = three;
  next[0] = {{0}, "worker-1", 0, 2, 0, 2, {2}};
  next[1] = {{1}, "worker-1", 1, 2, 0, 1, {3}};
  next[2] = {{2}, "worker-0", 0, 1, 1, 2, {4}};
  const auto first = server.begin_get("/rank_and_size/worker-1:0");
  server.http.begin(next);
  const auto second = server.begin_get("/rank_and_size/worker-1:1");
  server.put("/global/rank_2", "worker-0");
  CHECK(server.http.arrivals() == std::set<Rank>{{0}, {1}, {2}});
  CHECK(server.sent[first] + server.sent[second] == "");
  server.put("/global/2", "C");
  CHECK(server.sent[first] == ok("0,3,0,2,0,2"));
  CHECK(server.sent[second] == ok("1,3,1,2,0,1"));
  const auto held = server.begin_get("/global/2");
  CHECK(server.sent[held].empty());
}

TEST_CASE("who goes while it waits, or sends more than one request, harms nobody") {
  Server server;
  const auto gone = server.begin_get("/global/0");
  server.http.closed(gone);
  const auto set = server.begin_get("/cross_0_process_set_hash_1/0");
  server.http.closed(set);
  const auto more = server.begin_get("/global/0");
  server.http.received(more, "GET /global/rank_0 HTTP/1.1\r\n\r\n");
  for (const char* rank : {"0", "1", "2"}) server.put(std::string("/global/") + rank, rank);
  CHECK(server.sent[gone].empty());
  CHECK(server.sent[more] == ok("0"));
}

TEST_CASE("who speaks something else is turned away in words") {
  Server server;
  const auto connection = server.begin("\x16\x03\x01 hello\r\n\r\n");
  CHECK(server.sent[connection] == bad);
  CHECK(server.closed[connection] == "it does not speak HTTP/1.x");
  server.http.received(connection, "GET /global/rank_0 HTTP/1.1\r\n\r\n");
  CHECK(server.sent[connection] == bad);
}

TEST_CASE("values have a limit in all, and room comes back") {
  Server server;
  const std::string large(HorovodRequestReader::most_value, 'x');
  std::size_t kept = 0;
  while (server.put("/any/" + std::to_string(kept), large) == ok()) ++kept;
  CHECK(kept == HorovodHttp::most_bytes / large.size() - 1);
  CHECK(server.closed[server.last] == "its ranks have put 512 MiB, and no more is kept");
  server.remove("/any/0");
  CHECK(server.put("/any/last", large) == ok());
}

TEST_CASE("requests that have not ended count towards the limit, and room comes back") {
  Server server;
  const std::string head =
      "PUT /any/key HTTP/1.1\r\nContent-Length: " + std::to_string(HorovodRequestReader::most_value) +
      "\r\n\r\n";
  const std::string most(HorovodRequestReader::most_value - 1, 'x');
  std::uint32_t begun = 0;
  while (server.sent[server.begin(head + most)].empty()) ++begun;
  CHECK(begun == HorovodHttp::most_bytes / HorovodRequestReader::most_value - 1);
  CHECK(server.closed[server.last] == "its ranks have put 512 MiB, and no more is kept");
  server.http.received(1, "y");  // ends it
  CHECK(server.sent[1] == ok());
  server.http.closed(2);
  const auto next = server.begin(head + most);
  CHECK(server.sent[next].empty());
  server.http.received(next, "y");
  CHECK(server.sent[next] == ok());
}

}  // namespace
}  // namespace trainrun::rendezvous
