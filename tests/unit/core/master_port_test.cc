#include "launcher/core/master_port.h"

#include <doctest/doctest.h>

#include <cerrno>

using namespace trainrun;
using namespace trainrun::core;

namespace {

constexpr HostIndex first{0}, second{1};
constexpr Generation one{1}, two{2};

JobSpec job_with(std::uint16_t named = 0) {
  JobSpec job;
  job.hosts.hosts = {{.name = "gpu1", .slots = 1}, {.name = "gpu2", .slots = 1}};
  job.ports = {20000, 20100};
  job.master_port = named;
  return job;
}

}  // namespace

TEST_SUITE("master port") {
  TEST_CASE("doors leave the port of rank 0 alone, and have the range where it holds more") {
    const auto doors = [](PortRange range, std::uint16_t named, Compat compat = Compat::automatic) {
      auto job = job_with(named);
      job.ports = range;
      job.compat = compat;
      const auto ports = ports_of_doors(job);
      return std::pair(ports.first, ports.last);
    };
    using Ports = std::pair<std::uint16_t, std::uint16_t>;
    const Ports any{0, 0};
    CHECK(doors({}, 0) == any);
    CHECK(doors({20000, 20000}, 0) == any);
    CHECK(doors({20000, 20001}, 0) == Ports{20000, 20001});
    CHECK(doors({20000, 20001}, 0, Compat::horovod) == any);
    CHECK(doors({20000, 20002}, 0, Compat::horovod) == Ports{20000, 20002});
    CHECK(doors({20000, 20000}, 20000) == any);
    CHECK(doors({20000, 20000}, 29500) == Ports{20000, 20000});
    CHECK(doors({20000, 20001}, 20000) == Ports{20001, 20001});
    CHECK(doors({20000, 20001}, 20001) == Ports{20000, 20000});
    CHECK(doors({20000, 20001}, 20001, Compat::horovod) == any);
    CHECK(doors({20000, 20010}, 20004) == Ports{20005, 20010});
  }

  TEST_CASE("an agent is asked once a generation, and its answer is taken once") {
    const auto job = job_with();
    MasterPort port(job);
    const auto ask = port.want({one, first}, false);
    REQUIRE(ask);
    CHECK(ask->first == 20000);
    CHECK(ask->last == 20100);
    CHECK_FALSE(ask->only_look);
    CHECK_FALSE(port.take(job.hosts));
    CHECK_FALSE(port.want({one, first}, false));
    port.answered(first, {.port = 20007});
    const auto reserved = port.take(job.hosts);
    REQUIRE(reserved);
    CHECK(reserved->generation == one);
    CHECK(reserved->port == 20007);
    CHECK_FALSE(port.take(job.hosts));
  }

  TEST_CASE("an agent that was asked with its greeting is not asked again") {
    const auto job = job_with();
    MasterPort port(job);
    port.ask(first, one);
    SUBCASE("and has answered") {
      port.answered(first, {.port = 20001});
      CHECK_FALSE(port.want({one, first}, false));
    }
    SUBCASE("and has not answered yet") {
      CHECK_FALSE(port.want({one, first}, false));
      port.answered(first, {.port = 20001});
    }
    CHECK(port.take(job.hosts)->port == 20001);
  }

  TEST_CASE("answers belong to generations in the order in which they were asked for") {
    const auto job = job_with();
    MasterPort port(job);
    CHECK(port.want({one, first}, false));
    CHECK(port.want({two, first}, true));  // the first world was given up meanwhile
    port.answered(first, {.port = 20001});
    CHECK_FALSE(port.take(job.hosts));
    port.answered(first, {.port = 20002});
    const auto reserved = port.take(job.hosts);
    REQUIRE(reserved);
    CHECK(reserved->generation == two);
    CHECK(reserved->port == 20002);
  }

  TEST_CASE("another host's answer, or one that nobody waits for, is not taken for it") {
    const auto job = job_with();
    MasterPort port(job);
    port.answered(second, {.port = 20009});
    CHECK(port.want({one, first}, false));
    port.answered(second, {.port = 20009});
    CHECK_FALSE(port.take(job.hosts));
  }

  TEST_CASE("what an agent held is gone with it") {
    const auto job = job_with();
    MasterPort port(job);
    port.ask(first, one);
    SUBCASE("before it answered") {}
    SUBCASE("after it answered") { port.answered(first, {.port = 20001}); }
    port.forget(first);
    CHECK(port.want({one, first}, false));  // the new agent is asked
    CHECK_FALSE(port.take(job.hosts));
    port.answered(first, {.port = 20003});
    CHECK(port.take(job.hosts)->port == 20003);
  }

  TEST_CASE("a named port is looked at before the first world alone") {
    const auto job = job_with(29500);
    MasterPort port(job);
    const auto ask = port.want({one, first}, false);
    REQUIRE(ask);
    CHECK(ask->first == 29500);
    CHECK(ask->last == 29500);
    CHECK(ask->only_look);
    port.answered(first, {.port = 29500});
    CHECK(port.take(job.hosts)->port == 29500);
    CHECK_FALSE(port.want({two, first}, true));
    CHECK(port.take(job.hosts)->port == 29500);
  }

  TEST_CASE("a job with a store of its own asks nobody") {
    auto job = job_with();
    job.torch_store = TorchStore::trainrun;
    MasterPort port(job);
    CHECK_FALSE(port.want({one, first}, false));
    CHECK(port.take(job.hosts)->port == 0);
  }

  TEST_CASE("a refusal says where, which port, why, and what to do") {
    SUBCASE("of a named port that somebody uses") {
      const auto job = job_with(29500);
      MasterPort port(job);
      port.want({one, second}, false);
      port.answered(second, {.port = 29500, .error = EADDRINUSE, .holder = "python3, pid 7"});
      const auto error = port.take(job.hosts)->port.error();
      CHECK(error.code == Code::try_again);
      CHECK(error.message ==
            "gpu2: rank 0 could not listen on --master-port 29500: Address already in use (by python3, pid "
            "7)");
      CHECK(error.hint ==
            "end what uses it, name another port, or leave --master-port out: a free one is found at each "
            "start");
    }
    SUBCASE("of a named port that may not be used") {
      const auto job = job_with(80);
      MasterPort port(job);
      port.want({one, first}, false);
      port.answered(first, {.port = 80, .error = EACCES});
      const auto error = port.take(job.hosts)->port.error();
      CHECK(error.message == "gpu1: rank 0 could not listen on --master-port 80: Permission denied");
      CHECK(error.hint.starts_with("name another port, or leave --master-port out"));
    }
    SUBCASE("of a whole range") {
      const auto job = job_with();
      MasterPort port(job);
      port.want({one, first}, false);
      port.answered(first, {.error = EADDRINUSE});
      const auto error = port.take(job.hosts)->port.error();
      CHECK(error.message ==
            "gpu1: cannot reserve a port for MASTER_PORT: Address already in use (--port-range "
            "20000-20100)");
      CHECK(error.hint == "widen --port-range, or name a port with --master-port");
    }
    SUBCASE("since too many files are open") {
      const auto job = job_with();
      MasterPort port(job);
      port.want({one, first}, false);
      port.answered(first, {.error = EMFILE});
      CHECK(port.take(job.hosts)->port.error().hint.find("ulimit") != std::string::npos);
    }
  }
}
