// A table, a clock, and what each connection was told. Connection numbers are chosen by the tests.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "rendezvous/table.h"

namespace trainrun::rendezvous {

struct Scene {
  explicit Scene(std::uint32_t size, std::vector<std::string> hosts = {}) {
    World world{1, size, "job", {}};
    for (const auto& host : hosts) {
      Member member;
      member.host = host;
      world.members.push_back(member);
    }
    take(table.begin(world, now));
  }
  // The launcher begins a generation of these workers, by rank, each on a host of its own.
  void begin(std::uint32_t generation, const std::vector<std::uint32_t>& workers) {
    World world{generation, 0, "job", {}};
    for (const auto worker : workers) {
      Member member;
      member.host = "h" + std::to_string(worker);
      member.worker = worker;
      world.members.push_back(member);
    }
    take(table.begin(world, now));
  }
  void take(const Outbox& outbox) {
    for (const auto& item : outbox) told[item.connection].push_back(*item.body);
  }
  template <class Body>
  void ask(std::uint32_t connection, Body body, std::uint32_t generation = 1) {
    take(table.apply(connection, Request{++id, generation, std::move(body)}, now));
  }
  void pass(Duration time) {
    now += time;
    take(table.advance(now));
  }
  void join_all(std::uint32_t size) {
    for (std::uint32_t rank = 0; rank < size; ++rank) ask(rank, Join{rank, "h", "", 1000});
    told.clear();
  }
  // The only thing that the connection was told since the last look.
  ReplyBody only(std::uint32_t connection) {
    REQUIRE(told[connection].size() == 1);
    auto body = told[connection].front();
    told[connection].clear();
    return body;
  }
  template <class Body>
  Body only_a(std::uint32_t connection) {
    const auto body = only(connection);
    REQUIRE(std::holds_alternative<Body>(body));
    return std::get<Body>(body);
  }
  // All members of the complete world, as the connection hears of them.
  std::vector<Member> members(std::uint32_t connection, std::uint32_t size) {
    ask(connection, FetchMembers{0, size});
    return only_a<Members>(connection).members;
  }
  [[nodiscard]] bool silent(std::uint32_t connection) { return told[connection].empty(); }

  Table table;
  Instant now{seconds(1000)};
  std::uint32_t id = 0;
  std::map<std::uint32_t, std::vector<ReplyBody>> told;
};

using Ranks = std::vector<std::uint32_t>;

}  // namespace trainrun::rendezvous
