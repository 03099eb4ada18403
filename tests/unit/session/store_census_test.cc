#include "launcher/store_census.h"

#include <doctest/doctest.h>

using namespace trainrun;

namespace {

using Workers = std::vector<WorkerId>;

Instant at(int second) { return Instant{} + seconds(second); }

struct Scene {
  StoreCensus census;
  Scene() { census.begin(Generation{2}, {WorkerId{11}, WorkerId{12}, WorkerId{13}}); }
  Workers seen(int second, Workers met, Workers apart, Workers away = {}, std::uint32_t generation = 2) {
    return census
        .seen({.generation = Generation{generation},
               .met = std::move(met),
               .apart = std::move(apart),
               .away = std::move(away)},
              at(second))
        .absent;
  }
  StoreFindings told(int second, const wire::StoreSeen& seen) { return census.seen(seen, at(second)); }
  Workers end(int second, Workers workers) {
    Workers absent;
    for (const auto worker : workers) absent = census.ended(worker, at(second)).absent;
    return absent;
  }
};

const Generation here{2};
const WorkerId a{11}, b{12}, c{13};

}  // namespace

TEST_CASE("who has not come is named once, by what was seen after the others had waited") {
  Scene scene;
  CHECK(scene.seen(10, {a}, {b}, {c}).empty());
  CHECK(scene.seen(15, {a}, {b}, {c}).empty());
  CHECK(scene.seen(20, {a}, {b}, {c}) == Workers{b, c});
  CHECK(scene.seen(30, {a}, {b}, {c}).empty());
}

TEST_CASE("of who ended before it was looked at nothing is said if it had met the others by comm") {
  Scene scene;
  SUBCASE("it had") {
    scene.census.joined(here, Rank{1});
    scene.end(9, {b});
    CHECK(scene.seen(10, {a}, {}, {c}).empty());
    CHECK(scene.seen(25, {a}, {}, {c}) == Workers{c});
  }
  SUBCASE("in another world") {
    scene.census.joined(Generation{1}, Rank{1});
    scene.end(9, {b});
    CHECK(scene.seen(10, {a}, {}, {c}).empty());
    CHECK(scene.seen(25, {a}, {}, {c}) == Workers{b, c});
  }
}

TEST_CASE("of the launcher's own store it is told alone that nobody has come") {
  Scene scene;
  scene.census.begin(here, {a, b, c}, true);
  CHECK(scene.seen(10, {}, {a, b, c}).empty());
  CHECK(scene.seen(71, {}, {a, b, c}) == Workers{a, b, c});
  scene.census.begin(here, {a, b, c}, true);
  CHECK(scene.seen(10, {a}, {b, c}).empty());
  CHECK(scene.seen(80, {a}, {b, c}).empty());
  CHECK(scene.end(90, {a, b, c}).empty());
}

TEST_CASE("that rank 0 waits for more than there are is told once all have come, and once") {
  Scene scene;
  wire::StoreSeen seen{.generation = here, .met = {a, b}, .apart = {c}, .idle_ms = 23'000};
  CHECK(scene.told(30, seen).all_of == 0);
  seen.met = {a, b, c}, seen.apart = {};
  CHECK(scene.told(31, seen).all_of == 3);
  CHECK(scene.told(32, seen).all_of == 0);
}

TEST_CASE("nobody is named whom an agent has not looked at since") {
  Scene scene;
  CHECK(scene.seen(10, {a}, {}, {}).empty());
  CHECK(scene.seen(11, {}, {b, c}).empty());  // another host
  CHECK(scene.seen(25, {a}, {}).empty());
  CHECK(scene.seen(26, {c}, {b}) == Workers{b});
}

TEST_CASE("for whom the others wait is known as long as they wait") {
  Scene scene;
  CHECK(scene.census.awaited().empty());
  scene.seen(10, {a}, {b}, {c});
  CHECK(scene.census.awaited() == Workers{b, c});
  scene.seen(20, {a, c}, {b});
  CHECK(scene.census.awaited() == Workers{b});
  SUBCASE("until it comes") { scene.seen(21, {b}, {}); }
  SUBCASE("and lives") { scene.end(21, {b}); }
  SUBCASE("unless they meet by other means") { scene.census.meet_elsewhere(here); }
  SUBCASE("unless it meets others at a port of their own") {
    scene.told(21, {.generation = here, .others = {{b, {1234}, {1234}}}});
  }
  SUBCASE("in this world") { scene.census.begin(Generation{3}, {a, b, c}); }
  CHECK(scene.census.awaited().empty());
}

TEST_CASE("nothing is said of a world that meets") {
  Scene scene;
  CHECK(scene.seen(10, {a}, {b, c}).empty());
  CHECK(scene.seen(40, {a, b, c}, {}).empty());
}

TEST_CASE("ranks that have all loaded PyTorch and do not meet are named, all of them") {
  Scene scene;
  CHECK(scene.seen(10, {}, {a, b}, {c}).empty());
  CHECK(scene.seen(20, {}, {a, b, c}).empty());
  CHECK(scene.seen(70, {}, {a, b, c}).empty());  // a slow machine
  CHECK(scene.seen(80, {}, {a, b, c}) == Workers{a, b, c});
  CHECK(scene.seen(90, {}, {a, b, c}).empty());
  SUBCASE("a late one comes all the same, and waits") {
    CHECK(scene.seen(100, {a}, {b, c}).empty());
    CHECK(scene.seen(110, {a}, {b, c}) == Workers{b, c});
  }
  SUBCASE("at their end it is said again: they are not late any more") {
    CHECK(scene.end(100, {a, b, c}) == Workers{a, b, c});
  }
}

TEST_CASE("nor are they, where connections to the store were left behind: some may have met and parted") {
  Scene scene;
  CHECK(scene.told(10, {.generation = here, .apart = {a, b, c}}).absent.empty());
  CHECK(scene.told(11, {.generation = here, .apart = {a, b, c}, .traces = true}).absent.empty());
  for (const int second : {75, 100, 200})
    CHECK(scene.told(second, {.generation = here, .apart = {a, b, c}}).absent.empty());
}

TEST_CASE("ranks that have loaded trainrun's library as well are not taken for worlds of one") {
  Scene scene;
  CHECK(scene.seen(10, {}, {a, b, c}).empty());
  CHECK(scene.seen(15, {}, {}, {a, b, c}).empty());
  CHECK(scene.seen(90, {}, {}, {a, b, c}).empty());
  SUBCASE("nor at their end") { CHECK(scene.end(100, {a, b, c}).empty()); }
  SUBCASE("but for the store they are missed") {
    CHECK(scene.seen(100, {a}, {}, {b, c}).empty());
    CHECK(scene.seen(110, {a}, {}, {b, c}) == Workers{b, c});
  }
}

TEST_CASE("one that has ended is waited for in vain, and nobody need look at it again") {
  Scene scene;
  CHECK(scene.seen(10, {a}, {}, {b, c}).empty());
  scene.end(12, {c});
  CHECK(scene.seen(15, {a}, {}, {b}).empty());
  CHECK(scene.seen(20, {a}, {}, {b}) == Workers{b, c});
}

TEST_CASE("ranks that have all loaded PyTorch do not wait for one that has ended to load it") {
  Scene scene;
  scene.end(9, {a});
  CHECK(scene.seen(10, {}, {b, c}).empty());
  CHECK(scene.seen(70, {}, {b, c}) == Workers{a, b, c});
}

TEST_CASE("one of them that has not loaded it keeps the others from being spoken of") {
  Scene scene;
  CHECK(scene.seen(10, {}, {a, b}, {c}).empty());
  CHECK(scene.seen(500, {}, {a, b}, {c}).empty());
}

TEST_CASE("ranks that meet by other means are not taken for worlds of one") {
  Scene scene;
  scene.census.meet_elsewhere(Generation{1});
  scene.census.meet_elsewhere(Generation{2});
  CHECK(scene.seen(10, {}, {a, b, c}).empty());
  CHECK(scene.seen(90, {}, {a, b, c}).empty());
  CHECK(scene.seen(100, {a}, {b, c}).empty());
  CHECK(scene.seen(110, {a}, {b, c}) == Workers{b, c});
}

TEST_CASE("ranks that end well before it was time to speak of them are named at their end") {
  Scene scene;
  CHECK(scene.seen(1, {}, {}, {a, b, c}).empty());
  CHECK(scene.seen(3, {}, {a, b, c}).empty());
  CHECK(scene.end(5, {a, b}).empty());
  CHECK(scene.end(6, {c}) == Workers{a, b, c});
}

TEST_CASE("at the end nothing is said of ranks that may have met while nobody looked") {
  Scene scene;
  scene.seen(3, {}, {a, b, c});
  SUBCASE("connections were left behind") { scene.told(6, {.generation = here, .traces = true}); }
  SUBCASE("some listened at another port") {
    scene.told(4, {.generation = here, .apart = {a}, .others = {{a, {4000}, {}}}});
  }
  SUBCASE("a script names a place of its own") {
    scene.told(4, {.generation = here, .apart = {a}, .own_meeting = true});
  }
  SUBCASE("by other means") { scene.census.meet_elsewhere(Generation{2}); }
  SUBCASE("one had come") { scene.seen(5, {a}, {}); }
  CHECK(scene.end(9, {a, b, c}).empty());
}

TEST_CASE("at the end nothing is said of ranks that have only just, or not all, loaded PyTorch") {
  Scene scene;
  scene.seen(3, {}, {a, b});
  SUBCASE("not all") { CHECK(scene.end(9, {a, b, c}).empty()); }
  SUBCASE("only just") {
    scene.seen(4, {}, {c});
    CHECK(scene.end(5, {a, b, c}).empty());
  }
  SUBCASE("one of an earlier world ends as well") {
    scene.seen(4, {}, {c});
    CHECK(scene.end(9, {WorkerId{7}, a, b}).empty());
    CHECK(scene.end(10, {c}) == Workers{a, b, c});
  }
}

TEST_CASE("who waits at another port is shown there") {
  Scene scene;
  scene.told(1, {.generation = here, .met = {a}, .apart = {b, c}, .port = 29500});
  const auto found = scene.told(20, {.generation = here,
                                     .met = {a},
                                     .apart = {b, c},
                                     .others = {{b, {29999, 40000}, {443, 29999}}, {c, {}, {443, 29999}}}});
  CHECK(found.absent == Workers{b, c});
  REQUIRE(found.elsewhere.size() == 2);
  CHECK(found.elsewhere[0].worker == b);
  CHECK(found.elsewhere[0].port == 29999);
  CHECK(found.elsewhere[0].listens);
  CHECK_FALSE(found.elsewhere[1].listens);
  CHECK(found.elsewhere[1].port == 29999);
}

TEST_CASE("ranks that all meet at ports of their own are not spoken of") {
  Scene scene;
  const std::vector<wire::PortsOfRank> mesh{
      {a, {29999, 4001}, {4002, 4003, 29999}}, {b, {4002}, {4001, 29999}}, {c, {4003}, {4002, 29999}}};
  scene.told(1, {.generation = here, .apart = {a, b, c}, .others = mesh});
  const auto found = scene.told(70, {.generation = here, .apart = {a, b, c}, .others = mesh});
  CHECK(found.absent.empty());
  CHECK(found.elsewhere.empty());
  CHECK(scene.end(80, {a, b, c}).empty());
}

TEST_CASE("if some of them meet there, nobody is taken for a world of one") {
  Scene scene;
  const std::vector<wire::PortsOfRank> some{{a, {29999}, {29999}}, {b, {}, {29999}}};
  scene.told(1, {.generation = here, .apart = {a, b, c}, .others = some});
  const auto found = scene.told(70, {.generation = here, .apart = {a, b, c}, .others = some});
  CHECK(found.some_meet_elsewhere);
  CHECK(found.absent.empty());
  CHECK(found.elsewhere.size() == 2);
}

TEST_CASE("a store of its own, and connections to somebody else, leave a rank alone") {
  Scene scene;
  const std::vector<wire::PortsOfRank> own{{a, {29999}, {29999, 443}}, {b, {}, {443}}};
  scene.told(1, {.generation = here, .apart = {a, b, c}, .others = own});
  const auto found = scene.told(70, {.generation = here, .apart = {a, b, c}, .others = own});
  CHECK(found.absent == Workers{a, b, c});
  REQUIRE(found.elsewhere.size() == 1);
  CHECK(found.elsewhere[0].worker == a);
}

TEST_CASE("several that hold the store are named, once") {
  Scene scene;
  CHECK(scene.told(1, {.generation = here, .met = {a}, .hosts = {a}}).hosts.empty());
  CHECK(scene.told(2, {.generation = here, .met = {c}, .hosts = {c}}).hosts == Workers{a, c});
  CHECK(scene.told(3, {.generation = here, .met = {c}, .hosts = {c}}).hosts.empty());
}

TEST_CASE("a script that stays alone without a GPU is told of once, and not as a world of one again") {
  Scene scene;
  CHECK(scene.told(1, {.generation = here, .apart = {a}, .unasked = true}).unasked);
  CHECK_FALSE(scene.told(2, {.generation = here, .apart = {a, b, c}, .unasked = true}).unasked);
  CHECK(scene.seen(90, {}, {a, b, c}).empty());
  CHECK(scene.end(100, {a, b, c}).empty());
}

TEST_CASE("words of another generation, or of a world without newcomers only, count for nothing") {
  Scene scene;
  CHECK(scene.seen(10, {a}, {b, c}, {}, 1).empty());
  CHECK(scene.seen(90, {a}, {b, c}, {}, 1).empty());
  scene.census.begin(Generation{3}, {});
  CHECK(scene.seen(100, {a}, {b, c}, {}, 3).empty());
  CHECK(scene.seen(200, {a}, {b, c}, {}, 3).empty());
}
