#include "launcher/output/shown.h"

#include <doctest/doctest.h>

using namespace trainrun;
using output::hidden_streams;

namespace {

// "oe", "o", "e" or "": which are not shown.
std::string hidden(const JobSpec& job, std::uint32_t rank, std::uint32_t local_rank) {
  const auto [out, err] = hidden_streams(job, rank, local_rank);
  return std::string(out ? "o" : "") + (err ? "e" : "");
}

Program of(int np) {
  Program program;
  program.np = np;
  return program;
}

}  // namespace

TEST_CASE("all is shown that nothing hides") { CHECK(hidden({}, 0, 0).empty()); }

TEST_CASE("ranks and local ranks that are not named are hidden") {
  JobSpec job;
  job.only_ranks = {1, 2};
  CHECK(hidden(job, 0, 0) == "oe");
  CHECK(hidden(job, 1, 1).empty());
  job.only_local_ranks = {0};
  CHECK(hidden(job, 1, 1) == "oe");
  CHECK(hidden(job, 2, 0).empty());
}

TEST_CASE("streams that are redirected are hidden, by the local rank's own word or that for all") {
  JobSpec job;
  job.redirects = {{.local_rank = -1, .out = true, .err = true}};
  CHECK(hidden(job, 5, 1) == "oe");
  job.redirects = {{.local_rank = 0, .out = true}, {.local_rank = 1, .err = true}};
  CHECK(hidden(job, 4, 0) == "o");
  CHECK(hidden(job, 5, 1) == "e");
  CHECK(hidden(job, 6, 2).empty());
}

TEST_CASE("the bytes of one rank pass where it alone is shown, and nothing is written around them") {
  JobSpec job;
  job.programs = {of(4)};
  CHECK(output::tag_of(job) == Tag::rank);
  CHECK_FALSE(output::passes_bytes(job));
  job.tag = Tag::none;
  CHECK_FALSE(output::passes_bytes(job));
  job.only_ranks = {2};
  CHECK(output::passes_bytes(job));
  job.timestamp = true;
  CHECK_FALSE(output::passes_bytes(job));
  job = {};
  job.programs = {of(1)};
  CHECK(output::tag_of(job) == Tag::none);
  CHECK(output::passes_bytes(job));
  job.elastic.max_np = 2;
  CHECK_FALSE(output::passes_bytes(job));
}
