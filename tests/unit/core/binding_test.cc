#include "launcher/core/binding.h"

#include <doctest/doctest.h>

#include <limits>
#include <set>

namespace trainrun::core {
namespace {

using Cpus = std::vector<std::uint32_t>;

// Two hardware threads a core, numbered as Linux does: core c has the CPUs c and c + cores.
wire::HostFacts machine(std::uint32_t sockets, std::uint32_t numa_per_socket, std::uint32_t cores_per_numa) {
  wire::HostFacts facts;
  const auto cores = sockets * numa_per_socket * cores_per_numa;
  for (std::uint32_t cpu = 0; cpu < 2 * cores; ++cpu) {
    const auto core = cpu % cores;
    const auto numa = core / cores_per_numa;
    facts.cpus.push_back({cpu, core, numa / numa_per_socket, numa});
  }
  return facts;
}

JobSpec binding(BindTo to, int cpus_per_rank = 0) {
  JobSpec job;
  job.bind_to = to;
  job.cpus_per_rank = cpus_per_rank;
  return job;
}

TEST_CASE("without binding, no CPUs are named") {
  CHECK(cpus_for(binding(BindTo::none), machine(2, 1, 4), 0, 4)->empty());
  CHECK(cpus_for(binding(BindTo::none, 4), wire::HostFacts{}, 0, 4)->empty());
}

TEST_CASE(
    "auto binds as Open MPI does: a core up to two ranks, else a socket, nothing where cores are shared") {
  JobSpec job = binding(BindTo::automatic);
  job.programs = {Program{{"./a"}, 2, "/"}};
  const auto facts = machine(2, 1, 4);
  CHECK(*cpus_for(job, facts, 0, 2) == Cpus{0, 8});
  CHECK(*cpus_for(job, facts, 0, 1) == Cpus{0, 8});
  job.programs[0].np = 4;
  CHECK(*cpus_for(job, facts, 3, 4) == Cpus{4, 5, 6, 7, 12, 13, 14, 15});
  CHECK(cpus_for(job, facts, 0, 9)->empty());
  CHECK(cpus_for(job, wire::HostFacts{}, 0, 2)->empty());
}

// --map-by ppr:N:PART on hosts with `parts` of them.
JobSpec counted_by(HostPart part, int ranks, int parts, BindTo to) {
  JobSpec job = binding(to);
  job.map_by = MapBy::ppr;
  job.per_part = {part, ranks, parts};
  job.ppr = ranks * parts;
  return job;
}

TEST_CASE("ranks that are counted by parts fill one after the other, and are bound within") {
  const auto facts = machine(2, 2, 2);  // sockets: cores 0-3, 4-7; NUMA nodes: 0-1, 2-3, 4-5, 6-7
  const auto job = counted_by(HostPart::socket, 2, 2, BindTo::core);
  const Cpus cores[] = {{0, 8}, {2, 10}, {4, 12}, {6, 14}};
  for (std::uint32_t rank = 0; rank < 4; ++rank) CHECK(*cpus_for(job, facts, rank, 4) == cores[rank]);
  // three of four: the third is alone on its socket
  CHECK(*cpus_for(job, facts, 2, 3) == Cpus{4, 12});
  const auto whole = counted_by(HostPart::socket, 2, 2, BindTo::socket);
  CHECK(*cpus_for(whole, facts, 1, 4) == Cpus{0, 1, 2, 3, 8, 9, 10, 11});
  CHECK(*cpus_for(whole, facts, 2, 4) == Cpus{4, 5, 6, 7, 12, 13, 14, 15});
  const auto narrower = counted_by(HostPart::socket, 2, 2, BindTo::numa);
  CHECK(*cpus_for(narrower, facts, 1, 4) == Cpus{2, 3, 10, 11});
  const auto wider = counted_by(HostPart::core, 1, 8, BindTo::numa);
  CHECK(*cpus_for(wider, facts, 3, 8) == Cpus{2, 3, 10, 11});
  CHECK(cpus_for(counted_by(HostPart::socket, 2, 2, BindTo::none), facts, 1, 4)->empty());
}

TEST_CASE("a host with another number of parts than ranks were counted for is an error that says so") {
  const auto job = counted_by(HostPart::socket, 2, 1, BindTo::none);
  const auto cpus = cpus_for(job, machine(2, 1, 4), 0, 2);
  REQUIRE_FALSE(cpus);
  CHECK(cpus.error().message ==
        "it has 2 sockets, and ranks were counted for hosts with 1, as the launcher's own has");
  CHECK(cpus.error().hint == "write --map-by ppr:4:node for the ranks that such a host is to get");
  CHECK_FALSE(slots_suit(job, machine(2, 1, 4), 2));
  const auto inside = cpus_for(counted_by(HostPart::core, 2, 8, BindTo::core), machine(2, 1, 4), 0, 16);
  REQUIRE_FALSE(inside);
  CHECK(inside.error().message == "2 ranks with 1 core each need 2 cores, and 1 may be used");
}

TEST_CASE("an L3 cache may hold less than a NUMA node") {
  auto facts = machine(1, 1, 4);
  for (auto& cpu : facts.cpus) cpu.l3 = cpu.core / 2 * 2;
  CHECK(*cpus_for(binding(BindTo::l3cache), facts, 1, 2) == Cpus{2, 3, 6, 7});
  CHECK(*cpus_for(counted_by(HostPart::l3cache, 1, 2, BindTo::core), facts, 1, 2) == Cpus{2, 6});
}

TEST_CASE("a line of a rank file names cores of the host or of a socket") {
  const auto facts = machine(2, 1, 4);
  JobSpec job = binding(BindTo::none);
  const auto cpus = [&](std::vector<CoreRange> cores) {
    job.rank_file = {{0, std::move(cores)}};
    return cpus_of(job, facts, Seat{}, 1);
  };
  constexpr auto all = std::numeric_limits<std::uint32_t>::max();
  CHECK(*cpus({{1, 0, 2}}) == Cpus{4, 5, 6, 12, 13, 14});
  CHECK(*cpus({{-1, 5, 5}, {-1, 0, 0}}) == Cpus{0, 5, 8, 13});
  CHECK(*cpus({{0, 2, all}}) == Cpus{2, 3, 10, 11});
  CHECK(cpus({{2, 0, 0}}).error().message == "it has no socket 2: there are 0 to 1");
  CHECK(cpus({{1, 4, 4}}).error().message == "socket 1 has no core 4: 4 cores may be used");
  CHECK(cpus({{-1, 0, 8}}).error().message == "it has no core 8: 8 cores may be used");
  CHECK(cpus({})->empty());
  job.bind_to = BindTo::core;
  CHECK(*cpus({}) == Cpus{0, 8});
}

TEST_CASE("what a rank was bound to is said by CPUs and cores") {
  CHECK(binding_words({}, machine(2, 1, 4)) == "not bound");
  CHECK(binding_words({0, 8}, machine(2, 1, 4)) == "CPUs 0,8: 1 of 8 cores");
  CHECK(binding_words({3}, machine(2, 1, 4)) == "CPU 3: 1 of 8 cores");
}

TEST_CASE("binding to cores gives whole cores and spreads ranks over the NUMA nodes, neighbours together") {
  const auto facts = machine(2, 1, 4);  // cores 0-3 and 4-7
  const Cpus expected[] = {{0, 8}, {1, 9}, {4, 12}, {5, 13}};
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CHECK(*cpus_for(binding(BindTo::core), facts, rank, 4) == expected[rank]);
  }
  CHECK(*cpus_for(binding(BindTo::core, 4), facts, 1, 2) == Cpus{4, 5, 6, 7, 12, 13, 14, 15});
}

TEST_CASE("a rank straddles NUMA nodes only where cores would not suffice otherwise") {
  const auto facts = machine(1, 2, 3);  // two nodes of three cores
  CHECK(*cpus_for(binding(BindTo::core, 2), facts, 1, 2) == Cpus{3, 4, 9, 10});
  CHECK(*cpus_for(binding(BindTo::core, 2), facts, 1, 3) == Cpus{2, 3, 8, 9});
}

TEST_CASE("binding to NUMA nodes or sockets gives a whole one, shared evenly") {
  const auto facts = machine(2, 2, 2);
  CHECK(*cpus_for(binding(BindTo::numa), facts, 0, 4) == Cpus{0, 1, 8, 9});
  CHECK(*cpus_for(binding(BindTo::numa), facts, 3, 4) == Cpus{6, 7, 14, 15});
  CHECK(*cpus_for(binding(BindTo::numa), facts, 7, 8) == Cpus{6, 7, 14, 15});
  CHECK(*cpus_for(binding(BindTo::socket), facts, 0, 2) == Cpus{0, 1, 2, 3, 8, 9, 10, 11});
  CHECK(*cpus_for(binding(BindTo::socket), facts, 1, 2) == Cpus{4, 5, 6, 7, 12, 13, 14, 15});
  CHECK(*cpus_for(binding(BindTo::socket, 3), facts, 1, 2) == Cpus{4, 5, 6, 12, 13, 14});
}

TEST_CASE("only allowed CPUs are given, also where the mask has holes") {
  auto facts = machine(2, 1, 4);
  std::erase_if(facts.cpus,
                [](const wire::CpuFact& cpu) { return cpu.core != 1 && cpu.core != 6 && cpu.core != 7; });
  CHECK(*cpus_for(binding(BindTo::core), facts, 0, 3) == Cpus{1, 9});
  CHECK(*cpus_for(binding(BindTo::core), facts, 1, 3) == Cpus{6, 14});
  CHECK(*cpus_for(binding(BindTo::core), facts, 2, 3) == Cpus{7, 15});
}

TEST_CASE("too few cores is an error that counts") {
  const auto facts = machine(2, 1, 4);
  const auto refused = cpus_for(binding(BindTo::core, 3), facts, 0, 3);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Code::usage);
  CHECK(refused.error().message == "3 ranks with 3 cores each need 9 cores, and 8 may be used");
  CHECK_FALSE(cpus_for(binding(BindTo::core), facts, 0, 9).has_value());
  CHECK(cpus_for(binding(BindTo::numa, 3), machine(1, 2, 4), 0, 2).has_value());
  CHECK(cpus_for(binding(BindTo::socket, 2), machine(2, 1, 3), 0, 3).error().message ==
        "3 ranks with 2 cores each do not fit into sockets of 3, 3 cores");
  CHECK_FALSE(cpus_for(binding(BindTo::core), wire::HostFacts{}, 0, 1).has_value());
}

TEST_CASE("whatever the machine, ranks bound to cores never share one") {
  for (const auto& facts : {machine(1, 1, 7), machine(2, 1, 5), machine(2, 4, 3), machine(4, 2, 1)}) {
    const auto cores = usable_cores(facts);
    for (std::uint32_t each = 1; each <= cores; ++each) {
      for (std::uint32_t size = 1; size * each <= cores; ++size) {
        std::set<std::uint32_t> used;
        for (std::uint32_t rank = 0; rank < size; ++rank) {
          const auto cpus = cpus_for(binding(BindTo::core, static_cast<int>(each)), facts, rank, size);
          REQUIRE(cpus.has_value());
          CHECK(cpus->size() == 2 * each);
          used.insert(cpus->begin(), cpus->end());
        }
        CHECK(used.size() == 2 * each * size);
      }
    }
  }
}

TEST_CASE("usable cores are physical, allowed, and within the quota") {
  auto facts = machine(2, 1, 4);
  CHECK(usable_cores(facts) == 8);
  facts.quota_millicores = 2500;
  CHECK(usable_cores(facts) == 3);
  facts.quota_millicores = 100;
  CHECK(usable_cores(facts) == 1);
  facts.quota_millicores = 64000;
  CHECK(usable_cores(facts) == 8);
  CHECK(usable_cores(wire::HostFacts{}) == 1);
}

TEST_CASE("GPUs are dealt out in order, from the user's own list where there is one") {
  JobSpec job;
  CHECK(visible_gpus(job, 1).empty());
  job.gpus_per_rank = 2;
  CHECK(visible_gpus(job, 0) == "0,1");
  CHECK(visible_gpus(job, 1) == "2,3");
  job.env = {{"CUDA_VISIBLE_DEVICES", "7,GPU-5a,3"}};
  CHECK(visible_gpus(job, 0) == "7,GPU-5a");
  CHECK(visible_gpus(job, 1) == "3");
  job.env = {{"CUDA_VISIBLE_DEVICES", ""}, {"HIP_VISIBLE_DEVICES", "4,5"}};
  CHECK(visible_gpus(job, 0) == "4,5");
  job.env = {{"ROCR_VISIBLE_DEVICES", "6,7,3"}};
  CHECK(visible_gpus(job, 0) == "0,1");
  CHECK(visible_gpus(job, 1) == "2");
}

TEST_CASE("more ranks than a host may have processes are refused, to be tried again with fewer") {
  JobSpec job;
  wire::HostFacts facts;
  CHECK(slots_suit(job, facts, 1'000'000).has_value());  // nobody can say
  facts.most_processes = 32768;
  facts.processes_limit = "kernel.pid_max";
  CHECK(slots_suit(job, facts, 32768).has_value());
  const auto refused = slots_suit(job, facts, 1'000'000);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Code::try_again);
  CHECK(refused.error().message == "1000000 ranks are as many processes, and kernel.pid_max allows 32768");
}

TEST_CASE("too few GPUs is an error that counts") {
  JobSpec job;
  wire::HostFacts facts;
  facts.gpus = 4;
  CHECK(gpus_suffice(job, facts, 99).has_value());
  job.gpus_per_rank = 2;
  CHECK(gpus_suffice(job, facts, 2).has_value());
  CHECK(gpus_suffice(job, facts, 3).error().message ==
        "3 ranks with 2 GPUs each need 6 GPUs, and the host has 4");
  job.env = {{"CUDA_VISIBLE_DEVICES", "0,1"}};
  CHECK(gpus_suffice(job, facts, 2).error().message ==
        "2 ranks with 2 GPUs each need 4 GPUs, and CUDA_VISIBLE_DEVICES has 2");
  job.env = {{"ROCR_VISIBLE_DEVICES", "6,7"}};
  CHECK(gpus_suffice(job, facts, 2).error().message ==
        "2 ranks with 2 GPUs each need 4 GPUs, and ROCR_VISIBLE_DEVICES has 2");
}

}  // namespace
}  // namespace trainrun::core
