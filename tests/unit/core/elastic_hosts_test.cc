// Hosts of an elastic job: what they can give, who keeps them in the list, how long they are waited for, and
// from when on a lost one counts as lost.
#include "tests/unit/core/elastic_bench.h"

using namespace trainrun;
using namespace trainrun::core;
using Phase = JobMachine::Phase;
using Bench = ElasticBench;

namespace {

std::shared_ptr<const wire::HostFacts> with_gpus(std::uint32_t gpus) {
  wire::HostFacts facts;
  facts.gpus = gpus;
  return std::make_shared<const wire::HostFacts>(facts);
}

void discovers(JobSpec& spec) {
  spec.elastic.discovery.kind = DiscoveryKind::script;
  spec.elastic.max_np = 8;
  spec.gpus_per_rank = 1;
}

void ready_with_gpus(Bench& bench, std::uint32_t gpus) {
  for (std::uint32_t i = 0; i < bench.spec.hosts.hosts.size(); ++i)
    bench.tell(HostReady{HostIndex{i}, with_gpus(gpus)});
}

}  // namespace

TEST_SUITE("core.elastic hosts") {
  TEST_CASE("a host that gets more slots than it has GPUs is refused with the reason, and the ranks go on") {
    Bench bench(2, OnFailure::restart_world, discovers);
    ready_with_gpus(bench, 2);
    bench.form();
    bench.tell(HostsDiscovered{{Bench::host(0, 3), Bench::host(1)}});
    CHECK(
        bench.has_said("gpu0: 3 ranks with 1 GPU each need 3 GPUs, and the host has 2; no rank is started "
                       "there any more (try: lower --gpus-per-rank, or give the host fewer slots)"));
    CHECK_FALSE(bench.armed.contains(Deadline::settle));
    CHECK(bench.phase() == Phase::running);
    SUBCASE("said once") {
      const auto before = bench.said;
      bench.tell(HostsDiscovered{{Bench::host(0, 3), Bench::host(1)}});
      CHECK(bench.said == before);
    }
    SUBCASE("the next world does without it") {
      bench.end(bench.at(3), ExitStatus::exited(3));
      bench.drained();
      bench.form();
      CHECK(bench.seats() == "1.0 1.1");
    }
    SUBCASE("a number that fits makes it a host again") {
      bench.tell(HostsDiscovered{{Bench::host(0, 2), Bench::host(1)}});
      bench.end(bench.at(3), ExitStatus::exited(3));
      bench.drained();
      bench.form();
      CHECK(bench.seats() == "0.0 0.1 1.0 1.1");
    }
  }

  TEST_CASE("a refused host that the smallest world needs is the reason in the last line") {
    Bench bench(1, OnFailure::restart_world, discovers);
    ready_with_gpus(bench, 2);
    bench.form();
    bench.tell(HostsDiscovered{{Bench::host(0, 3)}});
    bench.end(bench.at(0), ExitStatus::exited(3));
    bench.drained();
    bench.pass(Deadline::world);
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Outcome::Kind::no_hosts);
    REQUIRE(bench.outcome->host_errors.size() == 1);
    CHECK(bench.outcome->host_errors[0].second.message.starts_with("gpu0: 3 ranks with 1 GPU "));
  }

  TEST_CASE("a host whose slots changed while it was away is asked for what they need now") {
    Bench bench(2, OnFailure::restart_world, discovers);
    bench.tell(HostsDiscovered{{Bench::host(0, 1), Bench::host(1)}});
    ready_with_gpus(bench, 1);
    CHECK(bench.has_said("gpu1: 2 ranks with 1 GPU each need 2 GPUs, and the host has 1"));
    CHECK(bench.count<AbandonHost>([](const auto& it) { return it.host == HostIndex{1}; }) == 1);
    CHECK(bench.count<AbandonHost>([](const auto& it) { return it.host == HostIndex{0}; }) == 0);
  }

  TEST_CASE("ranks are bound among as many slots as their host has when they start") {
    Bench bench(1, OnFailure::restart_world, [](JobSpec& spec) {
      discovers(spec);
      spec.gpus_per_rank = 0;
    });
    bench.all_running();
    bench.tell(HostsDiscovered{{Bench::host(0, 4)}});
    bench.pass(Deadline::settle);
    bench.drained();
    bench.form();
    CHECK(bench.count<StartWorker>(
              [](const auto& it) { return it.generation.value == 2 && it.share.slots == 4; }) == 4);
  }

  TEST_CASE("a host that the user added stays, whatever the discovery lists, until he removes it") {
    Bench bench(1, OnFailure::restart_world, discovers);
    bench.all_running();
    bench.tell(AddHosts{{Bench::host(1)}});
    bench.tell(HostsDiscovered{{Bench::host(0), Bench::host(2)}});
    CHECK_FALSE(bench.has_said("no longer listed"));
    const auto listed = [&](std::uint32_t index) { return bench.machine->hosts()[index].listed; };
    CHECK(listed(1));
    bench.tell(RemoveHost{"gpu1"});
    bench.tell(HostsDiscovered{{Bench::host(0)}});
    CHECK_FALSE(listed(1));
    CHECK_FALSE(listed(2));
    CHECK(bench.has_said("hosts no longer listed: gpu2\n"));  // of gpu1 the user knows
  }

  TEST_CASE("a host that is added again while ranks still stop for its removal came, and did not leave") {
    Bench bench(2, OnFailure::restart_world);
    bench.all_running();
    bench.tell(RemoveHost{"gpu1"});
    REQUIRE(bench.phase() == Phase::draining);
    bench.tell(AddHosts{{Bench::host(1)}});
    bench.drained();
    bench.form();
    CHECK(bench.seats() == "0.0 0.1 1.0 1.1");
    CHECK(bench.has_said("generation 2: 4 ranks on 2 hosts; gpu1 came\n"));
  }

  TEST_CASE("one that is added again, and has no rank in the next world, has left") {
    Bench bench(3, OnFailure::restart_world, [](JobSpec& spec) { spec.programs[0].np = 4; });
    bench.all_running();
    bench.tell(RemoveHost{"gpu1"});
    bench.tell(AddHosts{{Bench::host(1)}});
    bench.lose(1);
    bench.drained();
    bench.ready(2);
    bench.form();
    CHECK(bench.seats() == "0.0 0.1 2.0 2.1");
    CHECK(bench.has_said("generation 2: 4 ranks on 2 hosts; gpu1 leaves (removed by the user)\n"));
  }

  TEST_CASE("where one host takes the place of another, both are told") {
    Bench bench(3, OnFailure::restart_world, [](JobSpec& spec) { spec.programs[0].np = 4; });
    bench.all_running();
    bench.tell(HostsDiscovered{{Bench::host(0), Bench::host(2)}});
    bench.pass(Deadline::settle);
    bench.drained();
    bench.ready(2);
    bench.form();
    CHECK(bench.seats() == "0.0 0.1 2.0 2.1");
    CHECK(bench.has_said("gpu2 came"));
    CHECK(bench.has_said("gpu1 left"));
  }

  TEST_CASE("a listed host whose slots the user gives back goes with the list") {
    Bench bench(2, OnFailure::restart_world, discovers);
    bench.all_running();
    bench.tell(AddHosts{{Bench::host(1)}});
    bench.tell(HostsDiscovered{{Bench::host(0)}});
    CHECK(bench.has_said("hosts no longer listed: gpu1"));
  }

  TEST_CASE("a host that was unlisted and kept, and then dies, is told and counted as lost") {
    Bench bench(2, OnFailure::restart_world, [](JobSpec& spec) { spec.elastic.min_np = 4; });
    bench.all_running();
    bench.tell(HostsDiscovered{{Bench::host(0)}});
    REQUIRE(bench.has_said("hosts no longer listed: gpu1; kept"));
    SUBCASE("while it runs") {}
    SUBCASE("while another failure is dealt with") {
      bench.end(bench.at(0), ExitStatus::exited(1));
      REQUIRE(bench.phase() == Phase::draining);
    }
    const bool draining = bench.phase() == Phase::draining;
    bench.lose(1);
    CHECK(bench.has_said("gpu1 lost" + std::string(draining ? " as well" : "") + " (no answer for 10.0 s)"));
    bench.drained();
    CHECK(bench.has_said("waiting for hosts: 2 slots of the 4"));
    bench.pass(Deadline::world);
    bench.all_stopped();
    REQUIRE(bench.outcome);
    if (!draining) {  // it served, since the others cannot hold a world: that costs a restart
      CHECK(bench.outcome->restarts == 1);
      CHECK(bench.outcome->causes == std::vector<std::pair<CauseKind, int>>{{CauseKind::host_lost, 1}});
    }
  }

  TEST_CASE("hosts that are unlisted while the next world is made, and serve it, are told to be kept") {
    Bench bench(2, OnFailure::restart_world, [](JobSpec& spec) { spec.elastic.min_np = 4; });
    bench.all_running();
    bench.end(bench.at(0), ExitStatus::exited(1));
    REQUIRE(bench.phase() == Phase::draining);
    bench.tell(HostsDiscovered{});
    CHECK(bench.has_said("hosts no longer listed: gpu0 and gpu1; kept, since the others cannot hold"));
  }

  TEST_CASE("where listed hosts cannot hold the smallest world, the next one is on those that were kept") {
    const auto least_two = [](JobSpec& spec) { spec.elastic.min_np = 2; };
    SUBCASE("a rank fails, and all start again where they were") {
      Bench bench(2, OnFailure::restart_world, least_two);
      bench.all_running();
      bench.tell(HostsDiscovered{});
      REQUIRE(bench.has_said("hosts no longer listed: gpu0 and gpu1; kept"));
      bench.end(bench.at(0), ExitStatus::exited(1));
      bench.drained();
      bench.form();
      CHECK(bench.seats() == "0.0 0.1 1.0 1.1");
      CHECK_FALSE(bench.has_said("waiting for hosts"));
    }
    SUBCASE("a host is listed that holds it: the next world is there") {
      Bench bench(2, OnFailure::restart_world, least_two);
      bench.all_running();
      bench.tell(HostsDiscovered{});
      bench.end(bench.at(0), ExitStatus::exited(1));
      bench.tell(HostsDiscovered{{Bench::host(0)}});
      bench.drained();
      bench.form();
      CHECK(bench.seats() == "0.0 0.1");
    }
    SUBCASE("the user takes one away: the others go on") {
      Bench bench(2, OnFailure::restart_world, least_two);
      bench.all_running();
      bench.tell(HostsDiscovered{});
      CHECK(bench.machine->holds_without(HostIndex{0}));
      bench.tell(RemoveHost{"gpu0"});
      bench.drained();
      bench.form();
      CHECK(bench.seats() == "1.0 1.1");
      CHECK_FALSE(bench.machine->holds_without(HostIndex{1}));
    }
    SUBCASE("one that has gone does not serve") {
      Bench bench(2, OnFailure::restart_world, least_two);
      bench.all_running();
      bench.tell(HostsDiscovered{});
      bench.lose(0);
      bench.drained();
      bench.form();
      CHECK(bench.seats() == "1.0 1.1");
    }
  }

  TEST_CASE("ranks that ran are not reported as never started when no host is left for the next world") {
    Bench bench(1);
    bench.all_running();
    bench.lose(0);
    bench.pass(Deadline::world);
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->kind == Outcome::Kind::no_hosts);
    CHECK(bench.outcome->others.not_started == 0);
  }

  TEST_CASE("a --start-timeout that was given ends a start without hosts, and is named") {
    const auto empty = [](JobSpec& spec) {
      spec.hosts.hosts.clear();
      discovers(spec);
      spec.start_timeout = seconds(5);
      spec.start_timeout_given = true;
    };
    SUBCASE("no host") {
      Bench bench(1, OnFailure::restart_world, empty);
      bench.tell(HostsDiscovered{});
      CHECK(
          bench.has_said("0 of 2 slots are available: waiting up to 5.0 s for more hosts (--start-timeout)"));
      bench.pass(Deadline::start);
      REQUIRE(bench.outcome);
      CHECK(bench.outcome->kind == Outcome::Kind::no_hosts);
      REQUIRE(bench.outcome->why);
      CHECK(output::words(*bench.outcome->why) ==
            "too few hosts for the smallest world, for 5.0 s (--start-timeout); the host discovery lists no "
            "host");
    }
    SUBCASE("without it the job waits for --elastic-timeout, and says so") {
      Bench bench(1, OnFailure::restart_world, [&](JobSpec& spec) {
        empty(spec);
        spec.start_timeout_given = false;
      });
      bench.tell(HostsDiscovered{});
      CHECK(bench.has_said(
          "0 of 2 slots are available: waiting up to 9m59s for more hosts (--elastic-timeout)"));
      bench.pass(Deadline::start);
      CHECK(bench.has_said("giving up in 9m54s (--elastic-timeout)"));
      bench.pass(Deadline::world);
      REQUIRE(bench.outcome);
      REQUIRE(bench.outcome->why);
      CHECK(output::words(*bench.outcome->why)
                .starts_with("too few hosts for the smallest world, for 10m00s (--elastic-timeout)"));
    }
    SUBCASE("enough for the smallest world: the wait for more is --start-timeout's") {
      Bench bench(1, OnFailure::restart_world, [&](JobSpec& spec) {
        empty(spec);
        spec.start_timeout_given = false;
        spec.programs[0].np = 4;
      });
      bench.tell(HostsDiscovered{{Bench::host(0)}});
      bench.ready(0);
      CHECK(
          bench.has_said("2 of 4 slots are available: waiting up to 5.0 s for more hosts (--start-timeout)"));
    }
  }

  TEST_CASE("time is lost from the last sign of life of a host, not from when its silence was noticed") {
    Bench bench(2, OnFailure::restart_world);
    bench.all_running();
    bench.now += seconds(30);
    bench.tell(HostLost{HostIndex{1}, "no answer for 10.0 s", bench.now - seconds(10)});
    bench.drained();
    bench.form();
    CHECK(bench.has_said("; after 10.1 s"));
    bench.finish_all();
    bench.all_stopped();
    REQUIRE(bench.outcome);
    CHECK(bench.outcome->lost_time >= seconds(10));
    CHECK(bench.outcome->lost_time < seconds(11));
  }

  TEST_CASE("a host whose agent gave a stopped launcher up does not rest for it") {
    Bench bench(2, OnFailure::restart_world);
    bench.all_running();
    bench.tell(HostLost{HostIndex{1}, "trainrun stood still for 20.0 s", bench.now, true});
    CHECK_FALSE(bench.machine->hosts()[1].note.starts_with("rests"));
    CHECK(bench.has_said("gpu1 lost (trainrun stood still for 20.0 s)"));
  }
}
