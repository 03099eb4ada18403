#include "launcher/store_words.h"

#include <doctest/doctest.h>

using namespace trainrun;

namespace {

using Lines = std::vector<std::string>;

Lines lines(const StoreFindings& found) {
  return store_lines(found, 29500, [](WorkerId worker) {
    return "rank " + std::to_string(worker.value) + " on gpu" + std::to_string(worker.value / 2);
  });
}

}  // namespace

TEST_CASE("nothing is said of a world without findings, nor of who is absent, which the brain tells") {
  CHECK(lines({}).empty());
  CHECK(lines({.absent = {WorkerId{1}}}).empty());
}

TEST_CASE("where ranks are that do not come to the store") {
  CHECK(lines({.elsewhere = {{WorkerId{2}, 29999, true, true}, {WorkerId{3}, 29999, false, true}}}) ==
        Lines{"not at MASTER_PORT 29500: rank 2 on gpu1 listens on port 29999; rank 3 on gpu1 is connected "
              "to port "
              "29999 (try: leave MASTER_ADDR and MASTER_PORT as they are set)"});
  const StoreFindings found{.elsewhere = {{WorkerId{2}, 29999, true, true}}, .some_meet_elsewhere = true};
  CHECK(
      lines(found).front().starts_with("no rank has come to MASTER_PORT 29500, and some meet elsewhere: rank "
                                       "2 on gpu1 listens on port 29999 (try"));
}

TEST_CASE("of many ranks some are named") {
  StoreFindings found;
  for (std::uint32_t i = 0; i < 7; ++i) found.elsewhere.push_back({WorkerId{i}, 4000, false, true});
  CHECK(lines(found).front().find("; rank 3 on gpu1 is connected to port 4000; and 3 more (try") !=
        std::string::npos);
}

TEST_CASE("several stores at one port are several worlds") {
  CHECK(lines({.hosts = {WorkerId{0}, WorkerId{2}}}) ==
        Lines{"2 ranks hold a store at MASTER_PORT 29500, each its own: rank 0 on gpu0, rank 2 on gpu1 (try: "
              "leave "
              "RANK, WORLD_SIZE and MASTER_ADDR as they are set)"});
}

TEST_CASE("a script that stays alone without a GPU is told what to say") {
  CHECK(lines({.unasked = true}).front().find("(try: -x ACCELERATE_USE_CPU=true, ") != std::string::npos);
}

TEST_CASE("ranks that take themselves for others, or their world for a larger one") {
  CHECK(clash_line({Rank{1}, Rank{3}, 0})
            .starts_with("ranks 1 and 3 have both called init_process_group as rank 0: not all ranks are in "
                         "one world (try"));
  CHECK(beyond_line(2, 3).starts_with(
      "all of 2 ranks called init_process_group, and some wait there for rank 3, which there is not (try"));
}
