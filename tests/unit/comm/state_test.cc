#include "comm/state.h"

#include <doctest/doctest.h>

#include <array>

#include "comm/backends/local_backend.h"

using namespace trainrun;
using namespace trainrun::comm;

namespace {

Group alone() { return Group(0, 1, std::make_unique<LocalBackend>(), seconds(1), Group::Explain()); }

}  // namespace

TEST_CASE("a restore puts back what the last save saw, blobs of another length too") {
  State state;
  std::array<double, 3> weights{1, 2, 3};
  int step = 7;
  REQUIRE(state.add("weights", weights.data(), sizeof weights));
  REQUIRE(state.add("step", &step, sizeof step));
  REQUIRE(state.add("nothing", nullptr, 0));
  REQUIRE(state.add_blob("text"));
  REQUIRE(state.set_blob("text", "short"));
  state.restore();  // there is nothing to go back to yet
  CHECK(step == 7);
  state.save();
  weights = {};
  step = 8;
  REQUIRE(state.set_blob("text", std::string(1000, 'x')));
  state.restore();
  CHECK(weights == std::array<double, 3>{1, 2, 3});
  CHECK(step == 7);
  CHECK(*state.blob("text") == "short");
  CHECK(state.saves() == 1);
}

TEST_CASE("a name is given once, before the first save, and is of a kind") {
  State state;
  int step = 0;
  REQUIRE(state.add("step", &step, sizeof step));
  CHECK(state.add("step", &step, sizeof step).error().status == TRC_INVALID);
  CHECK(state.add_blob("step").error().status == TRC_INVALID);
  CHECK(state.add("", &step, sizeof step).error().status == TRC_INVALID);
  CHECK(state.add("a\nb", &step, sizeof step).error().status == TRC_INVALID);
  CHECK(state.add("null", nullptr, 4).error().status == TRC_INVALID);
  CHECK(state.set_blob("step", "x").error().status == TRC_INVALID);
  CHECK(state.blob("step") == nullptr);
  state.save();
  CHECK(state.add("late", &step, sizeof step).error().status == TRC_INVALID);
}

TEST_CASE("after a sync the snapshot is what was agreed on") {
  State state;
  int step = 3;
  REQUIRE(state.add("step", &step, sizeof step));
  auto group = alone();
  CHECK(state.sync(group, 0, 1));
  step = 4;
  state.restore();
  CHECK(step == 3);
}

TEST_CASE("a sync that fails leaves the snapshot as it was") {
  State state;
  int step = 3;
  REQUIRE(state.add("step", &step, sizeof step));
  state.save();
  step = 4;
  Group over(0, 1, std::make_unique<LocalBackend>(), seconds(1),
             [](const std::string&, bool, const std::string&) { return Failure(); });
  over.abort();
  CHECK_FALSE(state.sync(over, 0, 1));
  state.restore();
  CHECK(step == 3);
}
