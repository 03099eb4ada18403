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
    return census.seen({Generation{generation}, std::move(met), std::move(apart), std::move(away)},
                       at(second));
  }
};

const WorkerId a{11}, b{12}, c{13};

}  // namespace

TEST_CASE("who has not come is named once, by what was seen after the others had waited") {
  Scene scene;
  CHECK(scene.seen(10, {a}, {b}, {c}).empty());
  CHECK(scene.seen(15, {a}, {b}, {c}).empty());
  CHECK(scene.seen(20, {a}, {b}, {c}) == Workers{b, c});
  CHECK(scene.seen(30, {a}, {b}, {c}).empty());
}

TEST_CASE("nobody is named whom an agent has not looked at since") {
  Scene scene;
  CHECK(scene.seen(10, {a}, {}, {}).empty());
  CHECK(scene.seen(11, {}, {b, c}).empty());  // another host
  CHECK(scene.seen(25, {a}, {}).empty());
  CHECK(scene.seen(26, {c}, {b}) == Workers{b});
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
  CHECK(scene.seen(40, {}, {a, b, c}).empty());
  CHECK(scene.seen(50, {}, {a, b, c}) == Workers{a, b, c});
  CHECK(scene.seen(60, {}, {a, b, c}).empty());
  // A late one comes all the same, and waits.
  CHECK(scene.seen(70, {a}, {b, c}).empty());
  CHECK(scene.seen(80, {a}, {b, c}) == Workers{b, c});
}

TEST_CASE("one that has ended is waited for in vain, and nobody need look at it again") {
  Scene scene;
  CHECK(scene.seen(10, {a}, {}, {b, c}).empty());
  scene.census.ended(c);
  CHECK(scene.seen(15, {a}, {}, {b}).empty());
  CHECK(scene.seen(20, {a}, {}, {b}) == Workers{b, c});
}

TEST_CASE("ranks that have all loaded PyTorch do not wait for one that has ended to load it") {
  Scene scene;
  scene.census.ended(a);
  CHECK(scene.seen(10, {}, {b, c}).empty());
  CHECK(scene.seen(40, {}, {b, c}) == Workers{a, b, c});
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

TEST_CASE("words of another generation, or of a world without newcomers only, count for nothing") {
  Scene scene;
  CHECK(scene.seen(10, {a}, {b, c}, {}, 1).empty());
  CHECK(scene.seen(90, {a}, {b, c}, {}, 1).empty());
  scene.census.begin(Generation{3}, {});
  CHECK(scene.seen(100, {a}, {b, c}, {}, 3).empty());
  CHECK(scene.seen(200, {a}, {b, c}, {}, 3).empty());
}
