#include "launcher/agent/pmix_world.h"

#include <doctest/doctest.h>

#include <functional>

namespace trainrun::agent {
namespace {

namespace pmix = wire::pmix;
constexpr int lost_connection = -61, not_found = -46;

// Worlds of some hosts with so many ranks each, numbered block by block; what leaves one is looked at by
// hand.
wire::World a_world(std::uint32_t hosts, std::uint32_t each, std::uint32_t here,
                    std::uint32_t generation = 1) {
  wire::World world;
  world.generation = Generation{generation};
  world.here = here;
  world.programs = {{{"./program"}, "/"}};
  for (std::uint32_t host = 0; host < hosts; ++host) {
    world.hosts.push_back("node" + std::to_string(host));
    for (std::uint32_t i = 0; i < each; ++i) {
      world.host_of_rank.push_back(host);
      world.program_of_rank.push_back(0);
    }
  }
  return world;
}

WorkerId id(std::uint32_t rank) { return {rank + 1}; }

PmixWorld with_ranks(const wire::World& world) {
  PmixWorld made(world);
  for (std::uint32_t rank = 0; rank < world.host_of_rank.size(); ++rank)
    if (world.host_of_rank[rank] == world.here) made.add(id(rank), Rank{rank});
  return made;
}

pmix::Reached reached(std::uint32_t rank, pmix::Stage stage = pmix::Stage::connected) {
  return {Generation{1}, Rank{rank}, stage};
}

template <class Message>
Message only(const PmixWorld::Effects& effects) {
  REQUIRE(effects.size() == 1);
  REQUIRE(std::holds_alternative<Message>(effects.front()));
  return std::get<Message>(effects.front());
}

wire::Gathered gathered(std::uint32_t sequence, std::vector<std::string> parts, std::vector<Rank> group = {},
                        bool last = true) {
  return {Generation{1}, std::move(group), sequence, std::move(parts), last, wire::Dialect::pmix};
}

}  // namespace

TEST_SUITE("pmix world") {
  TEST_CASE("a fence over hosts is one Gather out and all parts back") {
    auto world = with_ranks(a_world(2, 2, 0));
    const auto out = only<wire::Gather>(world.received(pmix::FenceAsked{Generation{1}, 7, {}, "mine"}));
    CHECK(out.dialect == wire::Dialect::pmix);
    CHECK(out.group.empty());
    CHECK(out.sequence == 1);
    CHECK(out.bytes == "mine");
    CHECK(world.gathered(gathered(1, {"mine"}, {}, false)).empty());
    const auto effects = world.gathered(gathered(1, {"yours"}));
    const auto reply = only<pmix::Reply>(effects);
    CHECK(reply.number == 7);
    CHECK(reply.status == 0);
    CHECK(reply.parts == std::vector<std::string>{"mine", "yours"});
  }

  TEST_CASE("a fence of this host's ranks alone needs nobody") {
    auto alone = with_ranks(a_world(1, 2, 0));
    CHECK(only<pmix::Reply>(alone.received(pmix::FenceAsked{Generation{1}, 1, {}, "b"})).parts ==
          std::vector<std::string>{"b"});
    auto world = with_ranks(a_world(2, 2, 1));
    CHECK(only<pmix::Reply>(world.received(pmix::FenceAsked{Generation{1}, 1, {Rank{2}, Rank{3}}, "b"}))
              .status == 0);
  }

  TEST_CASE("each group of ranks counts its own fences, and one follows the other") {
    auto world = with_ranks(a_world(2, 2, 0));
    const std::vector<Rank> some{Rank{0}, Rank{2}};
    CHECK(only<wire::Gather>(world.received(pmix::FenceAsked{Generation{1}, 1, {}, ""})).sequence == 1);
    CHECK(only<wire::Gather>(world.received(pmix::FenceAsked{Generation{1}, 2, some, ""})).sequence == 1);
    CHECK(world.received(pmix::FenceAsked{Generation{1}, 3, {}, "next"}).empty());
    const auto effects = world.gathered(gathered(1, {"", ""}));
    REQUIRE(effects.size() == 2);
    CHECK(std::get<pmix::Reply>(effects[0]).number == 1);
    CHECK(std::get<wire::Gather>(effects[1]).sequence == 2);
    CHECK(std::get<wire::Gather>(effects[1]).bytes == "next");
    CHECK(only<pmix::Reply>(world.gathered(gathered(1, {"", ""}, some))).number == 2);
    CHECK(world.gathered(gathered(1, {"", ""})).empty());  // late
    CHECK(only<pmix::Reply>(world.gathered(gathered(2, {"", ""}))).number == 3);
    CHECK(world.gathered(gathered(3, {"", ""})).empty());  // nobody asked
  }

  TEST_CASE("what does not fit is refused to the rank that asked") {
    auto world = with_ranks(a_world(2, 1, 0));
    const auto status = [&](pmix::FenceAsked question) {
      return std::get<pmix::Reply>(world.received(std::move(question)).front()).status;
    };
    CHECK(status({Generation{1}, 1, {Rank{0}, Rank{2}}, ""}) == lost_connection);
    CHECK(status({Generation{1}, 2, {Rank{1}, Rank{0}}, ""}) == lost_connection);
    CHECK(status({Generation{1}, 3, {}, std::string(wire::gather_limit + 1, 'x')}) == lost_connection);
    CHECK(world.received(pmix::FenceAsked{Generation{2}, 4, {}, ""}).empty());
  }

  TEST_CASE("a broken exchange fails every waiter once, and all that come after") {
    auto world = with_ranks(a_world(2, 1, 0));
    CHECK(world.received(pmix::FenceAsked{Generation{1}, 1, {}, ""}).size() == 1);
    CHECK(world.received(pmix::FenceAsked{Generation{1}, 2, {}, ""}).empty());
    CHECK(world.received(pmix::ModexAsked{Generation{1}, 3, Rank{1}}).size() == 1);
    const auto effects = world.failed();
    REQUIRE(effects.size() == 3);
    for (const auto& effect : effects) CHECK(std::get<pmix::Reply>(effect).status == lost_connection);
    CHECK(world.failed().empty());
    CHECK(world.gathered(gathered(1, {"", ""})).empty());
    CHECK(only<pmix::Reply>(world.received(pmix::FenceAsked{Generation{1}, 4, {}, ""})).status ==
          lost_connection);
    CHECK(only<pmix::Reply>(world.received(pmix::ModexAsked{Generation{1}, 5, Rank{1}})).status ==
          lost_connection);
    CHECK_FALSE(only<wire::Answer>(world.asked({Generation{1}, 9, Rank{0}, {}, wire::Dialect::pmix})).found);
  }

  TEST_CASE("a question about a rank elsewhere goes to its host, and the answer comes back") {
    auto here = with_ranks(a_world(2, 1, 0));
    auto there = with_ranks(a_world(2, 1, 1));
    auto question = only<wire::Ask>(here.received(pmix::ModexAsked{Generation{1}, 5, Rank{1}}));
    CHECK(question.rank == Rank{1});
    CHECK(question.dialect == wire::Dialect::pmix);
    question.question = 40;  // the launcher's number
    CHECK(only<pmix::AskModex>(there.asked(question)).number == 40);
    CHECK(there.received(pmix::Modex{41, 0, "stray"}).empty());
    auto answer = only<wire::Answer>(there.received(pmix::Modex{40, 0, "address"}));
    CHECK(answer.found);
    CHECK(there.received(pmix::Modex{40, 0, "twice"}).empty());
    answer.question = 5;
    const auto reply = only<pmix::Reply>(here.answered(answer));
    CHECK(reply.parts == std::vector<std::string>{"address"});
    CHECK(here.answered(answer).empty());
    CHECK_FALSE(only<wire::Answer>(there.asked({Generation{1}, 41, Rank{0}, {}, wire::Dialect::pmix})).found);
    CHECK(here.received(pmix::ModexAsked{Generation{1}, 6, Rank{1}}).size() == 1);
    CHECK(only<pmix::Reply>(here.answered({Generation{1}, 6, false, {}})).status == not_found);
    CHECK(only<pmix::Reply>(here.received(pmix::ModexAsked{Generation{1}, 7, Rank{2}})).status == not_found);
  }

  TEST_CASE("a rank is within MPI from PMIx_Init to PMIx_Finalize") {
    auto world = with_ranks(a_world(1, 2, 0));
    CHECK_FALSE(world.in_mpi(id(0)));
    CHECK(world.received(reached(0)).empty());
    CHECK(world.in_mpi(id(0)));
    CHECK_FALSE(world.in_mpi(id(1)));
    CHECK(world.received(reached(0, pmix::Stage::finalized)).empty());
    CHECK_FALSE(world.in_mpi(id(0)));
    CHECK(world.has_spoken(id(0)));
    world.received({Generation{2}, Rank{1}, pmix::Stage::connected});
    CHECK_FALSE(world.has_spoken(id(1)));
  }

  TEST_CASE("a rank that ended without PMIx is missed as soon as one here is within it") {
    SUBCASE("it ended first") {
      auto world = with_ranks(a_world(1, 3, 0));
      CHECK(world.left(id(2)).empty());
      CHECK(only<wire::Gather>(world.received(reached(0))).missing == std::vector<Rank>{Rank{2}});
      CHECK(world.received(reached(1)).empty());  // it is said once
    }
    SUBCASE("the others wait already") {
      auto world = with_ranks(a_world(2, 2, 1));
      world.received(reached(3));
      CHECK(only<wire::Gather>(world.left(id(2))).missing == std::vector<Rank>{Rank{2}});
    }
    SUBCASE("whoever was in MPI may leave after the others") {
      auto world = with_ranks(a_world(1, 2, 0));
      for (std::uint32_t rank = 0; rank < 2; ++rank) world.received(reached(rank));
      world.received(reached(0, pmix::Stage::finalized));
      CHECK(world.left(id(0)).empty());
      CHECK(world.left(id(1)).empty());
    }
    SUBCASE("programs that are no MPI end as they like") {
      auto world = with_ranks(a_world(1, 2, 0));
      CHECK(world.left(id(0)).empty());
      CHECK(world.left(id(1)).empty());
    }
  }

  TEST_CASE("MPI_Abort and words of a rank are those of its worker, while it lives") {
    auto world = with_ranks(a_world(2, 2, 1));
    const auto abort =
        only<PmixWorld::Abort>(world.received(pmix::AbortAsked{Generation{1}, Rank{3}, 7, "x"}));
    CHECK(abort.worker == id(3));
    CHECK(abort.code == 7);
    const auto print = only<PmixWorld::Print>(
        world.received(pmix::Logged{Generation{1}, Rank{2}, wire::Output::err, "words"}));
    CHECK(print.worker == id(2));
    CHECK(print.text == "words");
    CHECK(world.received(pmix::AbortAsked{Generation{1}, Rank{0}, 7, "not here"}).empty());
    world.received(reached(2));
    world.left(id(2));
    CHECK(world.received(pmix::Logged{Generation{1}, Rank{2}, wire::Output::err, "late"}).empty());
  }

  TEST_CASE("a rank that the others outlive is told to the helper, wherever it was") {
    auto world = with_ranks(a_world(2, 2, 0));
    CHECK(only<pmix::RankDied>(world.died(Rank{3})).rank == Rank{3});
    CHECK(world.died(Rank{4}).empty());
    world.failed();
    CHECK(world.died(Rank{1}).empty());
  }

  TEST_CASE("what is not offered is told once") {
    auto world = with_ranks(a_world(1, 2, 0));
    CHECK(only<PmixWorld::Tell>(world.received(pmix::Refused{Generation{1}, Rank{1}, pmix::Service::spawn}))
              .text ==
          "rank 1 asked for MPI_Comm_spawn, which trainrun does not offer (try: start all "
          "programs in one world, as in -np 1 ./parent : -np 4 ./child)");
    CHECK(world.received(pmix::Refused{Generation{1}, Rank{0}, pmix::Service::spawn}).empty());
    CHECK(world.received(pmix::Refused{Generation{1}, Rank{0}, pmix::Service::publish}).size() == 1);
  }

  TEST_CASE("a world whose lists do not fit each other is not taken") {
    CHECK(PmixWorld::is_whole(a_world(2, 2, 1)));
    const auto broken = [](const std::function<void(wire::World&)>& change) {
      auto world = a_world(2, 2, 1);
      change(world);
      return !PmixWorld::is_whole(world);
    };
    CHECK(broken([](auto& world) { world.here = 2; }));
    CHECK(broken([](auto& world) { world.host_of_rank[3] = 2; }));
    CHECK(broken([](auto& world) { world.program_of_rank[3] = 1; }));
    CHECK(broken([](auto& world) { world.program_of_rank.pop_back(); }));
    CHECK(broken([](auto& world) { world.host_of_rank.clear(), world.program_of_rank.clear(); }));
  }
}

}  // namespace trainrun::agent
