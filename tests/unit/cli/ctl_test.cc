#include "cli/ctl.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/control/server.h"

namespace trainrun::cli {
namespace {

using control::Place;
using control::Running;
using Kind = control::Command::Kind;

TEST_CASE("no job: said, with 69") {
  const Place place;
  const auto answer = ctl_answer({"world"}, {place / "trainrun"});
  REQUIRE_FALSE(answer.has_value());
  CHECK(exit_code_of(answer.error().code) == ExitCode::unreachable);
  CHECK(answer.error().message == "no running job of yours was started on this host");
  CHECK(ctl_answer({"list"}, {place / "trainrun"})->text ==
        "no running job of yours was started on this host, with this XDG_RUNTIME_DIR\n");
  CHECK(ctl_answer({"list", "--json"}, {place / "trainrun"})->text == "{\"ok\":true,\"jobs\":[]}\n");
}

TEST_CASE("--json: one object, also when nobody can be asked") {
  const Place place;
  const auto answer = ctl_answer({"--json", "world"}, {place / "trainrun"});
  REQUIRE(answer.has_value());
  CHECK(answer->code == ExitCode::unreachable);
  const auto json = nlohmann::json::parse(answer->text);
  CHECK(json["ok"] == false);
  CHECK(json["error"] == "no running job of yours was started on this host");
}

TEST_CASE("--force goes with remove, stop and a restart of all") {
  const Place place;
  Running job(place / "trainrun", "0a1f");
  CHECK(ctl_answer({"remove", "gpu2", "--force"}, {place / "trainrun"}).has_value());
  CHECK(ctl_answer({"--force", "stop", "1"}, {place / "trainrun"}).has_value());
  CHECK(job.told() == std::vector<control::Command>{{Kind::remove_host, {.name = "gpu2"}, 0, true},
                                                    {Kind::stop_worker, {}, 1, true}});
  for (const auto* verb : {"end", "list"})
    CHECK(ctl_answer({"--force", verb}, {place / "trainrun"}).error().code == Code::usage);
  CHECK(ctl_answer({"--force", "restart", "3"}, {place / "trainrun"}).error().code == Code::usage);
}

TEST_CASE("a place that is not trusted is why no job is seen") {
  const Place place;
  REQUIRE(::mkdir((place / "open").c_str(), 0700) == 0);
  REQUIRE(::chmod((place / "open").c_str(), 0755) == 0);
  CHECK(ctl_answer({"world"}, {place / "open"}).error().message.find("is open to other users") !=
        std::string::npos);
  CHECK(ctl_answer({"list"}, {place / "open"})->text.find("is open to other users") != std::string::npos);
}

TEST_CASE("the only job needs no name; a command's sentence is printed") {
  const Place place;
  Running job(place / "trainrun", "0a1f");
  const auto answer = ctl_answer({"remove", "gpu2"}, {place / "trainrun"});
  REQUIRE(answer.has_value());
  CHECK(answer->text == "done\n");
  CHECK(answer->code == ExitCode::success);
  CHECK(job.told() == std::vector<control::Command>{{Kind::remove_host, {.name = "gpu2"}}});
}

TEST_CASE("the world for people and for programs") {
  const Place place;
  Running job(place / "trainrun", "0a1f");
  const auto reply = control::to_json(control::WorldView{.generation = 2,
                                                         .phase = "running",
                                                         .job_id = "0a1f",
                                                         .min_np = 1,
                                                         .max_np = 1,
                                                         .ranks = {},
                                                         .hosts = {}});
  job.set_reply(reply);
  CHECK(ctl_answer({"world"}, {place / "trainrun"})->text ==
        "job 0a1f: generation 2, running, 0 ranks (wanted: exactly 1), 0 of 0 restarts used\n");
  CHECK(ctl_answer({"world", "--json"}, {place / "trainrun"})->text == reply + "\n");
}

TEST_CASE("a refusal: an error with its exit code, or the launcher's line with --json") {
  const Place place;
  Running job(place / "trainrun", "0a1f");
  const Error refusal{Code::usage, "there is no rank 7", "trainrun ctl world"};
  const auto reply = control::error_reply(refusal);
  job.set_reply(reply);
  CHECK(ctl_answer({"stop", "7"}, {place / "trainrun"}).error() == refusal);
  const auto answer = ctl_answer({"stop", "7", "--json"}, {place / "trainrun"});
  REQUIRE(answer.has_value());
  CHECK(answer->text == reply + "\n");
  CHECK(answer->code == ExitCode::usage);
}

TEST_CASE("several jobs: --job says which, by the beginning of its id") {
  const Place place;
  Running first(place / "one", "0a1f"), second(place / "two", "0b2e"), third(place / "two", "0b2e77");
  const std::vector<std::string> places{place / "one", place / "two"};

  const auto all = ctl_answer({"world"}, places);
  REQUIRE(all.has_value());
  CHECK(all->code == ExitCode::usage);
  CHECK(all->text.empty());
  REQUIRE(all->complaint.size() == 6);
  CHECK(all->complaint[0] == "trainrun: 3 jobs run here, so --job must say which");
  CHECK(all->complaint[1].starts_with("job "));
  CHECK(all->complaint[2].starts_with("0a1f "));
  CHECK(all->complaint[3].starts_with("0b2e "));
  CHECK(all->complaint[4].starts_with("0b2e77 "));
  CHECK(all->complaint[4].find("./train") != std::string::npos);
  CHECK(all->complaint[5] == "  try: write trainrun ctl --job 0a1f, and the same command");
  const auto told = ctl_answer({"--json", "world"}, places);
  REQUIRE(told.has_value());
  CHECK(told->code == ExitCode::usage);
  const auto json = nlohmann::json::parse(told->text);
  CHECK(json["ok"] == false);
  CHECK(json["error"] == "3 jobs run here, so --job must say which");
  REQUIRE(json["jobs"].size() == 3);
  CHECK(json["jobs"][1]["job"] == "0b2e");

  const auto some = ctl_answer({"--job", "0b", "end"}, places);
  REQUIRE(some.has_value());
  CHECK(some->complaint.size() == 5);
  CHECK(some->complaint[0] == "trainrun: 2 jobs run here whose id begins with 0b, so --job must say which");

  const auto none = ctl_answer({"--job", "ff", "end"}, places);
  REQUIRE_FALSE(none.has_value());
  CHECK(exit_code_of(none.error().code) == ExitCode::unreachable);

  CHECK(ctl_answer({"--job", "0a", "end"}, places).has_value());
  CHECK(ctl_answer({"--job", "0b2e", "restart"}, places).has_value());  // an id that is another's beginning
  CHECK(ctl_answer({"--job", "0b2e7", "world", "--json"}, places).has_value());
  CHECK(first.told() == std::vector<control::Command>{{Kind::end}});
  CHECK(second.told() == std::vector<control::Command>{{Kind::restart_world}});
  CHECK(third.told() == std::vector<control::Command>{{Kind::world}});
}

TEST_CASE("the launcher's pid is a name of its job, where no id begins so") {
  const Place place;
  Running job(place / "trainrun", "0a1f");
  CHECK(ctl_answer({"--job", std::to_string(::getpid()), "end"}, {place / "trainrun"}).has_value());
  CHECK(job.told() == std::vector<control::Command>{{Kind::end}});
  const auto other = ctl_answer({"--job", "1", "end"}, {place / "trainrun"});
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().message == "no job with the id, or launcher, 1 runs on this host");
}

TEST_CASE("the list names jobs, also one that does not answer") {
  const Place place;
  Running job(place / "trainrun", "0a1f");
  const auto hung = control::raw_listener(place / "trainrun/0b2e.sock");
  const auto text = ctl_answer({"list"}, {place / "trainrun"})->text;
  CHECK(text.find("0a1f  " + std::to_string(::getpid())) != std::string::npos);
  CHECK(text.find("(does not answer)") != std::string::npos);
  const auto json = nlohmann::json::parse(ctl_answer({"list", "--json"}, {place / "trainrun"})->text);
  CHECK(json["ok"] == true);
  REQUIRE(json["jobs"].size() == 2);
  CHECK(json["jobs"][0]["job"] == "0a1f");
  CHECK(json["jobs"][0]["ok"] == true);
  CHECK(json["jobs"][1]["job"] == "0b2e");
  CHECK(json["jobs"][1]["ok"] == false);
  CHECK(job.told().empty());
}

TEST_CASE("who asked for JSON gets it, also about words that are wrong") {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--json"},
                                             {"--json", "stop"},
                                             {"--json", "foo"},
                                             {"--job", "zz", "world", "--json"},
                                             {"--json", "--odd"}}) {
    const auto answer = ctl_answer(words, {});
    REQUIRE(answer.has_value());
    CHECK(answer->code == ExitCode::usage);
    const auto json = nlohmann::json::parse(answer->text);
    CHECK(json["ok"] == false);
    CHECK(json["code"] == "usage");
    CHECK_FALSE(json["error"].get<std::string>().empty());
  }
}

TEST_CASE("help is text, and bad words are errors before anybody is asked") {
  CHECK(ctl_answer({"--help"}, {})->text.starts_with("usage: trainrun ctl"));
  CHECK(ctl_answer({"stop"}, {}).error().code == Code::usage);
  CHECK(ctl_places({{"XDG_RUNTIME_DIR", "/x"}}).front() == "/x/trainrun");
  CHECK(ctl_places({}).back() == "/tmp/trainrun-" + std::to_string(::geteuid()));
}

}  // namespace
}  // namespace trainrun::cli
