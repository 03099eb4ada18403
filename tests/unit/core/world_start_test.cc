#include "launcher/core/world_start.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace trainrun;
using namespace trainrun::core;

namespace {

constexpr std::uint16_t master_port = 29501;

struct TwoHosts {
  JobSpec job;
  wire::HostFacts gpu1, gpu2;

  TwoHosts() {
    job.id = "0123456789abcdef";
    job.hosts.hosts = {{.name = "gpu1", .slots = 1, .slots_given = true},
                       {.name = "gpu2", .slots = 2, .slots_given = true}};
    job.programs = {Program{{"./train", "--fast"}, 3, "/work"}};
    gpu1.ssh_connection = "10.0.0.9 50000 10.0.0.1 22";
    gpu2.ssh_connection = "10.0.0.9 50001 10.0.0.2 22";
    for (auto* facts : {&gpu1, &gpu2})
      for (std::uint32_t cpu = 0; cpu < 8; ++cpu) facts->cpus.push_back({cpu, cpu, 0, 0});
  }

  [[nodiscard]] BeginWorld begin(std::uint32_t first_worker = 1, std::uint32_t generation = 1) const {
    return {
        *place(job, {generation}), {{first_worker}, {first_worker + 1}, {first_worker + 2}}, generation - 1};
  }
  [[nodiscard]] FactsByHost facts() const { return {{HostIndex{0}, &gpu1}, {HostIndex{1}, &gpu2}}; }
  [[nodiscard]] WorldStart begun() const {
    WorldStart world(job);
    world.begin(begin(), facts());
    return world;
  }
  [[nodiscard]] WorldStart::Site site() const {
    return {.job_directory = "/run/job", .rendezvous = 4242, .facts = &gpu2};
  }
};

StartWorker order(std::uint32_t rank, std::uint32_t generation = 1) {
  return {WorkerId{rank + 1}, {generation}, {rank}};
}

std::string value(const wire::Start& start, const std::string& name) {
  for (const auto& [key, text] : start.env)
    if (key == name) return text;
  return "(none)";
}

}  // namespace

TEST_SUITE("the start of a world") {
  TEST_CASE("a start order is what was asked for, with the rank's place and where it finds the others") {
    const TwoHosts hosts;
    const auto world = hosts.begun();
    auto asked = order(2);
    asked.share.cpus = {4, 5};
    const auto start = world.start(asked, hosts.site(), master_port);
    CHECK(start.worker == WorkerId{3});
    CHECK(start.generation == Generation{1});
    CHECK(start.argv == hosts.job.programs[0].argv);
    CHECK(start.directory == "/work");
    CHECK(start.cpus == std::vector<std::uint32_t>{4, 5});
    CHECK(value(start, "RANK") == "2");
    CHECK(value(start, "LOCAL_RANK") == "1");
    CHECK(value(start, "MASTER_ADDR") == "10.0.0.1");
    CHECK(value(start, "MASTER_PORT") == "29501");
    CHECK(value(start, "TRAINRUN_RENDEZVOUS") == "127.0.0.1:4242");
    CHECK(value(start, "TRAINRUN_KEY_FILE") == "/run/job/key");
    CHECK(value(start, "TORCHELASTIC_ERROR_FILE") == "/run/job/rank.2.error.json");
    CHECK(value(start, "TORCHELASTIC_RESTART_COUNT") == "0");
  }

  TEST_CASE("an error file of an earlier generation is not taken for this one's") {
    const TwoHosts hosts;
    auto world = hosts.begun();
    world.begin(hosts.begin(4, 2), hosts.facts());
    const auto start = world.start(order(2, 2), hosts.site(), master_port);
    CHECK(value(start, "TORCHELASTIC_ERROR_FILE") == "/run/job/rank.2.generation.2.error.json");
    CHECK(value(start, "TORCHELASTIC_RESTART_COUNT") == "1");
  }

  TEST_CASE("a newcomer has no generation so far, and the rank that it will have") {
    TwoHosts hosts;
    auto world = hosts.begun();
    auto later = *place(hosts.job, {0});
    later.seats.push_back(later.seats.back());
    later.seats.back().rank = Rank{3};
    world.plan(later, hosts.facts());
    const auto asked = order(3, 0);
    CHECK(world.seat_of(asked).host == HostIndex{1});
    const auto start = world.start(asked, hosts.site(), master_port);
    CHECK(start.generation == Generation{1});
    CHECK(value(start, "TRAINRUN_GENERATION") == "0");
    CHECK(value(start, "RANK") == "3");
    CHECK(value(start, "WORLD_SIZE") == "4");
    CHECK(value(start, "TORCHELASTIC_ERROR_FILE") == "/run/job/rank.3.worker.4.error.json");
    CHECK_FALSE(start.pmi);
    CHECK_FALSE(start.pmix);
    CHECK(start.stdin_mode == wire::StdinMode::null);
    hosts.job.stdin_rank = 2;  // it may be rank 2 when it joins
    CHECK(world.start(asked, hosts.site(), master_port).stdin_mode == wire::StdinMode::relay);
    CHECK(world.start(order(2), hosts.site(), master_port).generation == Generation{1});
  }

  TEST_CASE("a newcomer on a host that came after the world began has that host's address") {
    TwoHosts hosts;
    hosts.job.elastic.on_failure = OnFailure::automatic;
    WorldStart world(hosts.job);
    const Placement alone{Generation{1}, {Seat{.rank = {0}, .host = {0}}}, 1};
    world.begin({alone, {{1}}, 0}, {{HostIndex{0}, &hosts.gpu1}});
    CHECK(world.address_of({1}).empty());
    world.plan(*place(hosts.job, {0}), hosts.facts());
    CHECK(value(world.start(order(1, 0), hosts.site(), master_port), "TRAINRUN_ADDRESS") == "10.0.0.2");
    CHECK(world.address_of({0}) == "10.0.0.1");
  }

  TEST_CASE("with a store of ours a rank finds it at its own host's door") {
    TwoHosts hosts;
    hosts.job.torch_store = TorchStore::trainrun;
    auto site = hosts.site();
    site.torch_store = 5151;
    const auto start = hosts.begun().start(order(2), site, 0);
    CHECK(value(start, "MASTER_ADDR") == "127.0.0.1");
    CHECK(value(start, "MASTER_PORT") == "5151");
    CHECK(value(start, "TORCHELASTIC_USE_AGENT_STORE") == "True");
  }

  TEST_CASE("stdin goes to rank 0, by relay where the agent has not ours") {
    TwoHosts hosts;
    auto site = hosts.site();
    const auto mode = [&](std::uint32_t rank) {
      return hosts.begun().start(order(rank), site, master_port).stdin_mode;
    };
    CHECK(mode(0) == wire::StdinMode::relay);
    CHECK(mode(1) == wire::StdinMode::null);
    site.can_inherit_stdin = true;
    CHECK(mode(0) == wire::StdinMode::inherit);
    CHECK(mode(1) == wire::StdinMode::null);
    hosts.job.stdin_rank = 1;
    CHECK(mode(0) == wire::StdinMode::null);
    CHECK(mode(1) == wire::StdinMode::inherit);
    hosts.job.stdin_to = StdinTo::all;
    CHECK(mode(2) == wire::StdinMode::relay);
    hosts.job.stdin_to = StdinTo::none;
    CHECK(mode(1) == wire::StdinMode::null);
  }

  TEST_CASE("a world is new as long as no worker of an earlier one is in it") {
    const TwoHosts hosts;
    auto world = hosts.begun();
    CHECK(world.all_new());
    auto next = hosts.begin(4, 2);
    next.workers[1] = WorkerId{2};  // it has survived
    world.begin(next, hosts.facts());
    CHECK_FALSE(world.all_new());
    world.begin(hosts.begin(10, 3), hosts.facts());
    CHECK(world.all_new());
  }

  TEST_CASE("a host is told of a world once, before its first rank") {
    const TwoHosts hosts;
    auto world = hosts.begun();
    CHECK(world.introduction(order(0), hosts.gpu1));
    const auto told = world.introduction(order(1), hosts.gpu2);
    REQUIRE(told);
    CHECK(told->hosts == std::vector<std::string>{"gpu1", "gpu2"});
    CHECK(told->here == 1);
    CHECK_FALSE(world.introduction(order(2), hosts.gpu2));
    CHECK(world.introduced().size() == 2);
    world.begin(hosts.begin(4, 2), hosts.facts());
    CHECK(world.introduction(order(2, 2), hosts.gpu2));
    CHECK(world.introduced() == std::vector<HostIndex>{{1}});
  }

  TEST_CASE("what a rank can meet the others by depends on all hosts of the world") {
    TwoHosts hosts;
    CHECK_FALSE(hosts.begun().meets_without_torch());
    hosts.gpu2.programs.horovod = true;
    CHECK(hosts.begun().meets_without_torch());
    hosts.gpu2.programs.horovod = false;
    hosts.gpu2.programs.mpi.resize(1);
    CHECK_FALSE(hosts.begun().meets_without_torch());
    hosts.gpu2.programs.mpi[0].family = wire::MpiFamily::mpich;
    CHECK(hosts.begun().meets_without_torch());
    TwoHosts told;
    told.job.compat = Compat::horovod;
    CHECK(told.begun().meets_without_torch());
    told.job.compat = Compat::none;
    CHECK_FALSE(told.begun().meets_without_torch());
  }

  TEST_CASE("names, addresses and ranks of hosts; of one that is not in the world there is nothing") {
    const TwoHosts hosts;
    const auto world = hosts.begun();
    CHECK(world.host_of(Rank{0}) == "gpu1");
    CHECK(world.host_of(Rank{2}) == "gpu2");
    CHECK(world.ranks_on(HostIndex{1}) == std::vector<Rank>{{1}, {2}});
    CHECK(world.ranks_on(HostIndex{7}).empty());
    CHECK(world.address_of(HostIndex{1}) == "10.0.0.2");
    CHECK(world.address_of(HostIndex{7}).empty());
  }
}
