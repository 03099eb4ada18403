#include "launcher/output/event_line.h"

#include <doctest/doctest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "launcher/core/cause.h"

using namespace trainrun;
using namespace trainrun::core;
using Json = nlohmann::json;

namespace {

const output::Moment at{"2026-11-22T14:03:22.123Z", milliseconds(1500)};
const HostRef gpu1{HostIndex{1}, "gpu1"};

// It must be one line.
Json parsed(const std::string& line) {
  REQUIRE(line.find('\n') == line.size() - 1);
  auto json = Json::parse(line, nullptr, false);
  REQUIRE_FALSE(json.is_discarded());
  return json;
}
Json event(const Notice& notice) { return parsed(output::event_line(at, Generation{4}, notice)); }

template <std::size_t... Is>
std::vector<Notice> one_of_each(std::index_sequence<Is...>) {
  return {Notice(std::in_place_index<Is>)...};
}

JobSpec job_of(int hosts) {
  JobSpec job;
  job.id = "0123456789abcdef";
  for (int i = 0; i < hosts; ++i) job.hosts.hosts.push_back({.name = "gpu" + std::to_string(i)});
  job.programs.push_back({{"./train"}, 4, "/w"});
  return job;
}

}  // namespace

TEST_SUITE("output.event_line") {
  TEST_CASE("a time is told in UTC") {
    CHECK(output::utc_time(Duration::zero()) == "1970-01-01T00:00:00.000Z");
    CHECK(output::utc_time(seconds(1'000'000'000) + milliseconds(7)) == "2001-09-09T01:46:40.007Z");
  }

  TEST_CASE("every notice is one line with a time, its name, a generation and its words") {
    for (const auto& notice :
         one_of_each(std::make_index_sequence<std::variant_size_v<Notice::Alternatives>>())) {
      INFO(print(notice));
      const auto json = event(notice);
      CHECK(json["time"] == at.time);
      CHECK(json["since_start"] == 1.5);
      const std::string name = json["event"];
      CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos);
      CHECK(json["generation"].is_number_unsigned());
      CHECK(json["text"].is_string());
    }
  }

  TEST_CASE("a restart tells the rank, its host, its pid and how it ended") {
    const RankRef who{Rank{3}, gpu1, WorkerId{7}, 4711};
    const auto json = event(
        notice::Restarting{Generation{2}, cause::RankFailed{who, ExitStatus::killed(SIGKILL, false), "last"},
                           false, Follows::all_start_anew, 1, 10, seconds(3600)});
    CHECK(json["event"] == "restarting");
    CHECK(json["generation"] == 2);  // its own, and not the job's latest
    CHECK(json["cause"] == Json::parse(R"({"kind":"rank_failed","rank":3,"host":"gpu1","host_index":1,
      "worker":7,"pid":4711,"last_words":"last","status":{"kind":"killed","exit_code":137,"signal":"SIGKILL",
      "core_dumped":false,"text":"was killed by SIGKILL"}})"));
    CHECK(json["follows"] == "all_start_anew");
    CHECK(json["window"] == 3600.0);
    CHECK(json["text"] ==
          "rank 3 on gpu1 was killed by SIGKILL; restarting all ranks (restart 1 of 10 in 1h00m)");
  }

  TEST_CASE("what is not there is left out, and bytes that are no text do not break the line") {
    CHECK_FALSE(event(notice::GenerationFormed{Generation{1}, 2, 1}).contains("cause"));
    CHECK(event(notice::GenerationFormed{Generation{1}, 2, 1, cause::StopAsked{Rank{1}}})["cause"]["rank"] ==
          1);
    const auto json = event(notice::RankInspected{{Rank{0}, gpu1}, "in \xff\n\"x\""});
    CHECK(json["host"] == "gpu1");
    CHECK(json["evidence"] == "in \xef\xbf\xbd\n\"x\"");
  }

  TEST_CASE("the first line tells the schema and the job") {
    const auto json = parsed(output::start_line(at, job_of(2), "1.2.3", 99));
    CHECK(json["event"] == "job_started");
    CHECK(json["schema"] == output::events_schema);
    CHECK(json["job"] == "0123456789abcdef");
    CHECK(json["version"] == "1.2.3");
    CHECK(json["pid"] == 99);
    CHECK(json["ranks"] == 4);
    CHECK(json["hosts"] == Json::parse(R"(["gpu0","gpu1"])"));
  }

  TEST_CASE("the last line tells the exit code, the verdict and its cause") {
    const auto job = job_of(2);
    Outcome outcome;
    outcome.generation = Generation{3};
    outcome.restarts = 2;
    const auto end = [&](int code) {
      return parsed(output::end_line(at, job, outcome, code, {"one", "two"}));
    };
    SUBCASE("a success has none") {
      const auto json = end(0);
      CHECK(json["event"] == "job_ended");
      CHECK(json["exit_code"] == 0);
      CHECK(json["outcome"] == "success");
      CHECK_FALSE(json.contains("cause"));
      CHECK(json["generation"] == 3);
      CHECK(json["restarts"] == 2);
      CHECK(json["text"] == "one\ntwo");
    }
    SUBCASE("a failed rank") {
      outcome.kind = Outcome::Kind::worker_failed;
      outcome.cause = Failure{WorkerId{5}, Rank{2}, HostIndex{1}, 77, ExitStatus::exited(3)};
      outcome.cause->last_words = "no space";
      outcome.also_failed = {{WorkerId{6}, Rank{3}, HostIndex{1}, 78, ExitStatus::exited(1)}};
      outcome.also_failed[0].last_words = "none here";
      outcome.why = core::cause::WorldBroken{"rank 1 did not take part", {Rank{1}}};
      outcome.others.terminated = 2;
      const auto json = end(3);
      CHECK(json["outcome"] == "worker_failed");
      CHECK(json["cause"]["kind"] == "rank_failed");
      CHECK(json["cause"]["rank"] == 2);
      CHECK(json["cause"]["host"] == "gpu1");
      CHECK(json["cause"]["pid"] == 77);
      CHECK(json["cause"]["status"]["exit_code"] == 3);
      CHECK(json["cause"]["last_words"] == "no space");
      CHECK(json["also_failed"][0]["rank"] == 3);
      CHECK(json["also_failed"][0]["last_words"] == "none here");
      CHECK(json["reported"]["reason"] == "rank 1 did not take part");
      CHECK(json["reported"]["ranks"] == Json::array({1}));
      CHECK(json["others"]["terminated"] == 2);
    }
    SUBCASE("a lost host") {
      outcome.kind = Outcome::Kind::host_lost;
      outcome.host = HostIndex{1};
      outcome.ranks = {Rank{2}, Rank{3}};
      outcome.why = cause::LinkLost{"no answer for 10.0 s"};
      const auto json = end(69);
      CHECK(json["outcome"] == "host_lost");
      CHECK(json["cause"]["host"] == "gpu1");
      CHECK(json["cause"]["ranks"] == Json::parse("[2,3]"));
      CHECK(json["cause"]["why"]["reason"] == "no answer for 10.0 s");
    }
    SUBCASE("hosts that could not be used") {
      outcome.kind = Outcome::Kind::hosts_failed;
      outcome.host_errors = {{HostIndex{0}, {Code::auth, "gpu0: no key", "ssh-add"}}};
      const auto json = end(77);
      CHECK(json["failures"][0]["host"] == "gpu0");
      CHECK(json["failures"][0]["error"]["message"] == "gpu0: no key");
    }
    SUBCASE("a signal") {
      outcome.kind = Outcome::Kind::user_signal;
      outcome.signal = SIGTERM;
      CHECK(end(143)["cause"] == Json::parse(R"({"kind":"end_asked","signal":15,"by_ctl":false})"));
    }
  }

  TEST_CASE("lines that are missing are counted") { CHECK(output::dropped_line(12) == "{\"dropped\":12}\n"); }
}
