#include "launcher/core/inspection.h"

#include <doctest/doctest.h>

using namespace trainrun;
using core::Inspection;

namespace {

core::RankRef rank(std::uint32_t number) {
  return {.rank = Rank{number}, .host = {}, .worker = WorkerId{number + 1}};
}

}  // namespace

TEST_SUITE("inspection") {
  TEST_CASE("what was found is told in the order of ranks, however it came") {
    Inspection inspection;
    inspection.begin(seconds(12));
    inspection.found(rank(2), "c", false);
    inspection.found(rank(0), "a", true);
    inspection.found(rank(1), "b", false);
    const auto all = inspection.in_order();
    REQUIRE(all.size() == 3);
    CHECK(all[0].evidence == "a");
    CHECK(all[2].evidence == "c");
    CHECK(inspection.silence() == seconds(12));
    REQUIRE(inspection.stopped().size() == 1);
    CHECK(inspection.stopped().begin()->second.rank == Rank{0});
  }

  TEST_CASE("the next one begins with nothing") {
    Inspection inspection;
    inspection.begin(seconds(12));
    inspection.found(rank(0), "a", true);
    inspection.begin(seconds(20));
    CHECK(inspection.in_order().empty());
    CHECK(inspection.stopped().empty());
    CHECK(inspection.silence() == seconds(20));
  }
}
