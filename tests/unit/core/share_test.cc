#include "launcher/core/share.h"

#include <doctest/doctest.h>

namespace trainrun::core {
namespace {

using Cpus = std::vector<std::uint32_t>;

wire::HostFacts machine(std::uint32_t cores, std::uint32_t gpus, std::string place) {
  wire::HostFacts facts;
  for (std::uint32_t cpu = 0; cpu < cores; ++cpu) facts.cpus.push_back({cpu, cpu, 0, 0});
  facts.gpus = gpus;
  facts.place = std::move(place);
  return facts;
}

// `a` and `b` with two ranks each.
JobSpec two_by_two() {
  JobSpec job;
  job.hosts.hosts = {{.name = "a", .slots = 2, .slots_given = true},
                     {.name = "b", .slots = 2, .slots_given = true}};
  job.programs = {Program{{"./a"}, 4, "/"}};
  job.bind_to = BindTo::core;
  job.gpus_per_rank = 1;
  return job;
}

std::vector<Share> shares(const JobSpec& job, const std::vector<Shares::Of>& hosts) {
  const auto world = *place(job, Generation{1});
  const Shares all(job, world, [&](HostIndex host) { return hosts.at(host.value); });
  std::vector<Share> out;
  for (const auto& seat : world.seats) out.push_back(all.of(seat));
  return out;
}

TEST_CASE("hosts that are machines of their own are divided each for itself") {
  const auto a = machine(2, 2, "a"), b = machine(2, 2, "b");
  const auto all = shares(two_by_two(), {{2, &a}, {2, &b}});
  for (const std::size_t rank : {0, 1, 2, 3}) {
    CHECK(all[rank].slot == rank % 2);
    CHECK(all[rank].slots == 2);
    CHECK(all[rank].cpus == Cpus{static_cast<std::uint32_t>(rank % 2)});
    CHECK(all[rank].gpus == std::to_string(rank % 2));
    CHECK_FALSE(all[rank].lacks);
  }
}

TEST_CASE("two names of one machine divide its cores and GPUs") {
  const auto same = machine(4, 4, "one");
  const auto all = shares(two_by_two(), {{2, &same}, {2, &same}});
  for (const std::uint32_t rank : {0, 1, 2, 3}) {
    CHECK(all[rank].slot == rank);
    CHECK(all[rank].slots == 4);
    CHECK(all[rank].cpus == Cpus{rank});
    CHECK(all[rank].gpus == std::to_string(rank));
    CHECK_FALSE(all[rank].lacks);
  }
}

TEST_CASE("what the machine of two names has not is told, and nobody gets another's") {
  const auto few_cores = machine(2, 4, "one");
  const auto none = shares(two_by_two(), {{2, &few_cores}, {2, &few_cores}});
  for (const auto& share : none) REQUIRE(share.lacks);
  CHECK(none[0].lacks->message.find("4 ranks") != std::string::npos);

  const auto few_gpus = machine(4, 3, "one");
  const auto some = shares(two_by_two(), {{2, &few_gpus}, {2, &few_gpus}});
  CHECK_FALSE(some[2].lacks);
  REQUIRE(some[3].lacks);
  CHECK(some[3].lacks->message.find("GPU") != std::string::npos);
}

TEST_CASE(
    "a host that may grow is divided among all its slots, and one of which nothing is known is not bound") {
  const auto a = machine(8, 8, "a");
  const auto all = shares(two_by_two(), {{4, &a}, {2, nullptr}});
  CHECK(all[1].slots == 4);
  CHECK(all[1].cpus == Cpus{1});
  CHECK(all[3].cpus.empty());
  CHECK(all[3].gpus == "1");
  CHECK_FALSE(all[3].lacks);
}

TEST_CASE("places that nobody could tell are machines of their own") {
  const auto unknown = machine(2, 2, "");
  const auto all = shares(two_by_two(), {{2, &unknown}, {2, &unknown}});
  CHECK(all[2].slot == 0);
  CHECK(all[2].cpus == Cpus{0});
}

}  // namespace
}  // namespace trainrun::core
