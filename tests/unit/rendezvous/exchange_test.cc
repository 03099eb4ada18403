#include "rendezvous/exchange.h"

#include <doctest/doctest.h>

#include <random>

#include "launcher/wire/frame.h"

namespace trainrun::rendezvous {
namespace {

constexpr Generation g1{1}, g2{2};
constexpr HostIndex a{0}, b{1}, c{2};

wire::Gather part(std::string bytes, std::uint32_t sequence = 1, Generation generation = g1,
                  std::vector<Rank> group = {}) {
  return {generation, std::move(group), sequence, std::move(bytes), {}};
}

wire::Gather missing(std::vector<Rank> ranks, Generation generation = g1) {
  return {generation, {}, 1, {}, std::move(ranks)};
}

// Two ranks on each of `hosts` hosts.
Exchange open(std::uint32_t hosts = 2, Generation generation = g1) {
  Exchange exchange;
  std::vector<HostIndex> by_rank;
  for (std::uint32_t rank = 0; rank < 2 * hosts; ++rank) by_rank.push_back({rank / 2});
  exchange.begin(generation, by_rank);
  return exchange;
}

bool nothing(const Exchange::Effects& effects) { return effects.messages.empty() && !effects.broken; }

template <class Message>
const Message& only(const Exchange::Effects& effects, const std::vector<HostIndex>& to) {
  REQUIRE(effects.messages.size() == 1);
  CHECK(effects.messages.front().to == to);
  return std::get<Message>(effects.messages.front().message);
}

TEST_CASE("every host gets all parts, in the order of hosts, when the last one is there") {
  auto exchange = open();
  CHECK(nothing(exchange.gather(b, part("from b"))));
  const auto effects = exchange.gather(a, part("from a"));
  const auto& all = only<wire::Gathered>(effects, {a, b});
  CHECK(all.generation == g1);
  CHECK(all.sequence == 1);
  CHECK(all.parts == std::vector<std::string>{"from a", "from b"});
  CHECK(all.last);
  CHECK_FALSE(effects.broken);
}

TEST_CASE("exchanges follow one another") {
  auto exchange = open();
  for (std::uint32_t sequence = 1; sequence < 4; ++sequence) {
    CHECK(nothing(exchange.gather(a, part("x", sequence))));
    CHECK(only<wire::Gathered>(exchange.gather(b, part("y", sequence)), {a, b}).sequence == sequence);
  }
}

TEST_CASE("what comes twice, late, too early, from elsewhere or of another generation is dropped") {
  auto exchange = open();
  CHECK(nothing(exchange.gather(a, part("first"))));
  CHECK(nothing(exchange.gather(a, part("twice"))));
  CHECK(nothing(exchange.gather(c, part("no rank is there"))));
  CHECK(nothing(exchange.gather(b, part("early", 2))));
  CHECK(nothing(exchange.gather(b, part("old", 1, Generation{0}))));
  CHECK(nothing(exchange.gather(b, part("new", 1, g2))));
  CHECK(only<wire::Gathered>(exchange.gather(b, part("b")), {a, b}).parts ==
        std::vector<std::string>{"first", "b"});
  CHECK(nothing(exchange.gather(a, part("late", 1))));
  CHECK(nothing(exchange.gather(b, missing({Rank{2}}, g2))));
}

TEST_CASE("a group of some ranks has exchanges of its own, on its hosts alone") {
  auto exchange = open(3);
  const std::vector<Rank> some{Rank{1}, Rank{4}};
  CHECK(nothing(exchange.gather(a, part("world"))));
  CHECK(nothing(exchange.gather(b, part("not in it", 1, g1, some))));
  CHECK(nothing(exchange.gather(a, part("a", 1, g1, some))));
  const auto effects = exchange.gather(c, part("c", 1, g1, some));
  const auto& all = only<wire::Gathered>(effects, {a, c});
  CHECK(all.group == some);
  CHECK(all.parts == std::vector<std::string>{"a", "c"});
  for (const auto& bad : {std::vector<Rank>{Rank{4}, Rank{1}}, {Rank{1}, Rank{1}}, {Rank{6}}})
    CHECK(nothing(exchange.gather(a, part("a", 1, g1, bad))));
}

TEST_CASE("each dialect has exchanges of its own") {
  auto exchange = open();
  const auto in_pmix = [](std::string bytes) {
    auto made = part(std::move(bytes));
    made.dialect = wire::Dialect::pmix;
    return made;
  };
  CHECK(nothing(exchange.gather(a, part("a of PMI"))));
  CHECK(nothing(exchange.gather(a, in_pmix("a of PMIx"))));
  const auto first = exchange.gather(b, in_pmix("b of PMIx"));
  CHECK(only<wire::Gathered>(first, {a, b}).dialect == wire::Dialect::pmix);
  CHECK(only<wire::Gathered>(first, {a, b}).parts == std::vector<std::string>{"a of PMIx", "b of PMIx"});
  CHECK(only<wire::Gathered>(exchange.gather(b, part("b of PMI")), {a, b}).dialect == wire::Dialect::pmi);
}

TEST_CASE("what a host's ranks exchange by can be lost: all fail, and no rank is to blame") {
  auto exchange = open();
  CHECK(nothing(exchange.lost({g2, "another generation"})));
  const auto effects = exchange.lost({g1, "the helper of b was killed"});
  CHECK(only<wire::GatherFailed>(effects, {a, b}).reason == "the helper of b was killed");
  REQUIRE(effects.broken);
  CHECK(effects.broken->culprits.empty());
  CHECK(nothing(exchange.lost({g1, "again"})));
}

TEST_CASE("a rank that has ended fails what waits for it, at once and for every host") {
  auto exchange = open(3);
  CHECK(nothing(exchange.gather(a, part("a"))));
  const auto effects = exchange.left(g1, Rank{3});
  CHECK(only<wire::GatherFailed>(effects, {a, b, c}).reason == "rank 3 ended while others waited for it");
  REQUIRE(effects.broken);
  CHECK(effects.broken->culprits == std::vector<Rank>{Rank{3}});
  // ... and for ever, and once.
  CHECK(nothing(exchange.gather(b, part("b"))));
  CHECK(nothing(exchange.left(g1, Rank{4})));
  CHECK(nothing(exchange.end(g1, "over")));
}

TEST_CASE("a rank that ends when nobody waits fails what comes after it") {
  auto exchange = open();
  CHECK(nothing(exchange.left(g1, Rank{3})));
  CHECK(nothing(exchange.left(g1, Rank{1})));
  const auto effects = exchange.gather(a, part("a"));
  REQUIRE(effects.broken);
  CHECK(effects.broken->reason == "ranks 1 and 3 ended while others waited for them");
}

TEST_CASE("a rank whose host has sent its part was counted, and may end") {
  auto exchange = open();
  CHECK(nothing(exchange.gather(a, part("a"))));
  CHECK(nothing(exchange.left(g1, Rank{0})));
  CHECK(only<wire::Gathered>(exchange.gather(b, part("b")), {a, b}).last);
}

TEST_CASE("a rank of no group ends without harm to the group") {
  auto exchange = open(3);
  const std::vector<Rank> some{Rank{0}, Rank{2}};
  CHECK(nothing(exchange.gather(a, part("a", 1, g1, some))));
  CHECK(nothing(exchange.left(g1, Rank{4})));
  CHECK(only<wire::Gathered>(exchange.gather(b, part("b", 1, g1, some)), {a, b}).last);
}

TEST_CASE("an agent tells that ranks of its own are missing, and speaks of no others") {
  auto exchange = open();
  CHECK(nothing(exchange.gather(a, part("a"))));
  const auto effects = exchange.gather(b, missing({Rank{3}, Rank{0}, Rank{99}}));
  REQUIRE(effects.broken);
  CHECK(effects.broken->culprits == std::vector<Rank>{Rank{3}});
}

TEST_CASE("the end of a generation fails all that waits, and names nobody") {
  auto exchange = open();
  CHECK(nothing(exchange.gather(a, part("a"))));
  CHECK(nothing(exchange.end(g2, "another's end")));
  const auto effects = exchange.end(g1, "rank 2 on gpu1 was killed by SIGKILL");
  CHECK(only<wire::GatherFailed>(effects, {a, b}).reason == "rank 2 on gpu1 was killed by SIGKILL");
  CHECK_FALSE(effects.broken);
  CHECK(nothing(exchange.gather(b, part("b"))));
  exchange.begin(g2, {a, b});
  CHECK(nothing(exchange.gather(b, part("b"))));
  CHECK(nothing(exchange.gather(b, part("b", 1, g2))));
  CHECK(only<wire::Gathered>(exchange.gather(a, part("a", 1, g2)), {a, b}).generation == g2);
}

TEST_CASE("large parts travel in frames that are within their limit") {
  auto exchange = open(5);
  Exchange::Effects effects;
  for (std::uint32_t host = 0; host < 5; ++host)
    effects = exchange.gather({host}, part(std::string(wire::gather_limit, static_cast<char>('a' + host))));
  REQUIRE(effects.messages.size() > 1);
  std::string seen;
  for (const auto& send : effects.messages) {
    const auto& message = std::get<wire::Gathered>(send.message);
    CHECK(wire::to_frame(message).size() <= wire::frame_limit);
    CHECK(message.last == (&send == &effects.messages.back()));
    for (const auto& one : message.parts) seen += one.front();
  }
  CHECK(seen == "abcde");
}

TEST_CASE("a part that is too large, and parts that are too large together, are refused with the figure") {
  auto exchange = open();
  auto effects = exchange.gather(a, part(std::string(wire::gather_limit + 1, 'x')));
  REQUIRE(effects.broken);
  CHECK(effects.broken->culprits.empty());
  CHECK(effects.broken->reason == "a host has 4194305 bytes for one exchange, and 4194304 are allowed");

  auto many = open(70);
  for (std::uint32_t host = 0; host < 70 && !effects.broken->reason.starts_with("the ranks"); ++host) {
    auto next = many.gather({host}, part(std::string(wire::gather_limit, 'x')));
    if (next.broken) effects = std::move(next);
  }
  CHECK(effects.broken->reason == "the ranks have more than 256 MiB for one exchange");
}

TEST_CASE("a question goes to the agent of the rank, and its answer to the one who asked") {
  auto exchange = open();
  const auto asked = exchange.ask(a, {g1, 7, Rank{3}, "key"});
  const auto& question = only<wire::Ask>(asked, {b});
  CHECK(question.key == "key");
  CHECK(question.rank == Rank{3});
  const auto other = exchange.ask(b, {g1, 7, Rank{0}, "other"});
  const auto& second = only<wire::Ask>(other, {a});
  CHECK(second.question != question.question);

  CHECK(nothing(exchange.answer(a, {g1, question.question, true, "not a's to say"})));
  const auto answered = exchange.answer(b, {g1, question.question, true, "value"});
  const auto& answer = only<wire::Answer>(answered, {a});
  CHECK(answer.question == 7);
  CHECK(answer.found);
  CHECK(answer.bytes == "value");
  CHECK(nothing(exchange.answer(b, {g1, question.question, true, "twice"})));
  CHECK(nothing(exchange.answer(b, {g2, second.question, true, "crossed"})));
}

TEST_CASE("ranks that the others outlive are not waited for, once the world has met") {
  const auto fence = [](std::string bytes, std::uint32_t sequence) {
    auto made = part(std::move(bytes), sequence);
    made.dialect = wire::Dialect::pmix;
    return made;
  };
  auto exchange = open(3);
  CHECK(nothing(exchange.died(g2, Rank{4})));
  for (const auto host : {a, b, c}) exchange.gather(host, fence("init", 1));
  CHECK(nothing(exchange.died(g1, Rank{4})));
  CHECK(nothing(exchange.gather(a, fence("a", 2))));
  CHECK(nothing(exchange.gather(b, fence("b", 2))));
  CHECK(only<wire::Gathered>(exchange.died(g1, Rank{5}), {a, b, c}).parts ==
        std::vector<std::string>{"a", "b"});
  CHECK(nothing(exchange.gather(b, fence("b", 3))));
  CHECK(only<wire::Gathered>(exchange.gather(a, fence("a", 3)), {a, b, c}).parts.size() == 2);

  auto early = open(2);
  CHECK(nothing(early.gather(a, fence("init", 1))));
  const auto effects = early.died(g1, Rank{3});
  REQUIRE(effects.broken);
  CHECK(effects.broken->culprits == std::vector<Rank>{Rank{3}});
}

TEST_CASE("a question to nobody, with an endless key, or one too many is answered: not found") {
  auto exchange = open();
  CHECK_FALSE(only<wire::Answer>(exchange.ask(a, {g1, 1, Rank{4}, "k"}), {a}).found);
  CHECK_FALSE(only<wire::Answer>(exchange.ask(a, {g1, 1, Rank{3}, std::string(2000, 'k')}), {a}).found);
  for (std::uint32_t i = 0; i < Exchange::most_questions; ++i) exchange.ask(a, {g1, i, Rank{3}, "k"});
  CHECK_FALSE(only<wire::Answer>(exchange.ask(a, {g1, 1, Rank{3}, "k"}), {a}).found);
}

// Agents that do as they should, and messages that are doubled, delayed past the end of their generation, and
// in any order between hosts: each complete exchange is complete for all, with what each host had.
TEST_CASE("random schedules of late, double and crossed messages") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::minstd_rand random(seed + 1);
    const auto pick = [&](std::size_t n) { return static_cast<std::uint32_t>(random() % n); };
    const auto hosts = 1 + pick(4);
    Exchange exchange;
    std::vector<std::pair<HostIndex, wire::Gather>> late;
    for (std::uint32_t generation = 1; generation < 4; ++generation) {
      std::vector<HostIndex> by_rank;
      for (std::uint32_t host = 0; host < hosts; ++host) by_rank.push_back({host});
      exchange.begin({generation}, by_rank);
      std::vector<std::uint32_t> done(hosts, 0), sent(hosts, 0);
      const auto value = [&](std::uint32_t host, std::uint32_t sequence) {
        return std::to_string(generation * 10000 + host * 100 + sequence);
      };
      for (int step = 0; step < 60; ++step) {
        Exchange::Effects effects;
        const auto host = pick(hosts);
        if (!late.empty() && pick(3) == 0) {
          const auto& [from, message] = late[pick(late.size())];
          effects = exchange.gather(from, message);
        } else if (sent[host] == done[host]) {
          const auto message = part(value(host, ++sent[host]), sent[host], {generation});
          late.emplace_back(HostIndex{host}, message);
          effects = exchange.gather({host}, message);
        }
        CHECK_FALSE(effects.broken);
        for (const auto& send : effects.messages) {
          const auto& message = std::get<wire::Gathered>(send.message);
          CHECK(message.generation.value == generation);
          CHECK(send.to.size() == hosts);
          REQUIRE(message.parts.size() == hosts);
          for (std::uint32_t i = 0; i < hosts; ++i) {
            CHECK(message.sequence == ++done[i]);
            CHECK(sent[i] == done[i]);
            CHECK(message.parts[i] == value(i, done[i]));
          }
        }
      }
      if (pick(2) == 0) exchange.end({generation}, "over");
    }
  }
}

}  // namespace
}  // namespace trainrun::rendezvous
