#include "cli/dry_run.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace trainrun::cli {
namespace {

std::string golden(const std::string& name) {
  std::ifstream file(TRAINRUN_GOLDEN "/" + name);
  REQUIRE_MESSAGE(file.good(), name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string login_line(const Host& host) {
  return host.name == "me" ? "" : "sh -c 'agent for " + host.name + "'";
}

JobSpec two_hosts() {
  JobSpec job;
  job.id = "0123456789abcdef";
  job.hosts.hosts = {
      {.name = "gpu1", .slots = 1, .slots_given = true},
      {.name = "gpu2", .user = "bob", .port = 2222, .identity = "/k", .slots = 2, .slots_given = true},
      {.name = "spare", .slots = 4, .slots_given = true}};
  job.programs = {
      Program{{"./train", "--lr", "0.1", "--name", "a b", "--api-key", "hunter2", "--max-tokens", "512"},
              3,
              "/work"}};
  job.env = {{"HF_TOKEN", "hunter2"}, {"PATH", "/bin"}, {"URL", "http://me:hunter2@h/"}};
  job.not_forwarded = {"MY_DATA", "WANDB_API_KEY"};
  return job;
}

JobSpec this_host() {
  JobSpec job;
  job.hosts.hosts = {{.name = "me", .slots = 2, .slots_given = true}};
  job.programs = {Program{{"./server"}, 1, "/work", {{"PART", "server"}}}, Program{{"./client"}, 1, "/work"}};
  job.env = {{"PATH", "/bin"}};
  job.inherit_all = true;
  job.bind_to = BindTo::core;
  job.cpus_per_rank = 2;
  job.gpus_per_rank = 1;
  job.master_port = 29500;
  return job;
}

std::string text_of(const JobSpec& job) { return dry_run_text(job, *core::place(job, {1}), login_line); }
std::string json_of(const JobSpec& job) { return dry_run_json(job, *core::place(job, {1}), login_line); }

TEST_CASE("a numbering of its own is told beside the mapping") {
  auto job = two_hosts();
  job.rank_by = RankBy::host;
  CHECK(text_of(job).starts_with("3 ranks on 2 hosts, mapped by slot, ranked by host\n"));
  CHECK(json_of(job).find("\"rank_by\": \"host\"") != std::string::npos);
}

TEST_CASE("the texts of a dry run over two hosts are the golden ones") {
  CHECK(text_of(two_hosts()) == golden("dry_run_two_hosts.txt"));
  CHECK(json_of(two_hosts()) == golden("dry_run_two_hosts.json"));
}

TEST_CASE("the texts of a dry run on this host alone are the golden ones") {
  CHECK(text_of(this_host()) == golden("dry_run_this_host.txt"));
  CHECK(json_of(this_host()) == golden("dry_run_this_host.json"));
}

TEST_CASE("no credential is in a dry run, whether in a variable, a URL or an argument") {
  auto job = two_hosts();
  job.programs[0].argv = {"./x",     "--token=hunter2",      "--password",
                          "hunter2", "http://me:hunter2@h/", "API_KEY=hunter2"};
  job.programs[0].env = {{"MY_SECRET", "hunter2"}};
  CHECK(text_of(job).find("hunter2") == std::string::npos);
  CHECK(json_of(job).find("hunter2") == std::string::npos);
  CHECK(text_of(job).find("--token=<redacted> --password <redacted> <redacted> API_KEY=<redacted>") !=
        std::string::npos);
}

TEST_CASE("a token is known by its shape in a variable as well, whatever the variable's name") {
  auto job = two_hosts();
  job.env.push_back({"HUB", "ghp_0123456789abcdefghij0123456789abcdef"});
  job.programs[0].env = {{"ARGS", "--hub hf_abcdefghij0123456789ABCDEFGHIJ0123 --lr 3"}};
  for (const auto& out : {text_of(job), json_of(job)}) {
    CHECK(out.find("0123456789") == std::string::npos);
    CHECK(out.find("--hub <redacted> --lr 3") != std::string::npos);
  }
}

TEST_CASE("each rank's environment in the JSON is whole, and what only the start knows is listed") {
  const auto json = nlohmann::json::parse(json_of(two_hosts()));
  REQUIRE(json["ranks"].size() == 3);
  const auto& rank = json["ranks"][2];
  CHECK(rank["env"]["PATH"] == "/bin");
  CHECK(rank["env"]["RANK"] == "2");
  CHECK(rank["env"]["MASTER_PORT"] == "<reserved on gpu1 at start>");
  const std::vector<std::string> at_start = rank["at_start"];
  CHECK(std::count(at_start.begin(), at_start.end(), "MASTER_PORT") == 1);
  CHECK(std::count(at_start.begin(), at_start.end(), "HF_TOKEN") == 0);
  for (const auto& name : at_start) CHECK(rank["env"][name].get<std::string>().starts_with('<'));
}

JobSpec elastic_job() {
  auto job = two_hosts();
  job.elastic.on_failure = OnFailure::automatic;
  job.elastic.min_np = 2;
  job.elastic.max_np = 8;
  job.elastic.spares = 1;
  job.elastic.limit = {3, seconds(600)};
  job.elastic.hang_timeout = seconds(900);
  return job;
}

TEST_CASE("an elastic job is described, with and without known hosts") {
  CHECK(text_of(elastic_job()) == golden("dry_run_elastic.txt"));
  const auto json = nlohmann::json::parse(json_of(elastic_job()));
  CHECK(json["world_size"] == 3);
  CHECK(
      json["elastic"].dump() ==
      R"({"cooldown":{"max":300.0,"min":10.0},"discovery":{"default_slots":1,"interval":1.0,"kind":"none","source":""},"elastic_timeout":600.0,"hang_timeout":900.0,"leave_signal":"TERM","max_np":8,"min_np":2,"on_failure":"auto","reset_limit":{"count":3,"window":600.0},"settle":2.0,"spares":1})");

  auto job = elastic_job();
  job.hosts.hosts.clear();
  job.elastic.discovery = {
      .kind = DiscoveryKind::script, .source = "./hosts.sh --token hunter2", .default_slots = 4};
  job.elastic.limit.window = std::chrono::hours(24 * 3650);
  const core::Placement unknown{{1}, {}, 0};
  const auto text = dry_run_text(job, unknown, login_line);
  CHECK(text == golden("dry_run_discovery.txt"));
  const auto later = nlohmann::json::parse(dry_run_json(job, unknown, login_line));
  CHECK(later["world_size"] == 0);
  CHECK(later["hosts"].empty());
  CHECK(later["ranks"].empty());
  CHECK(later["programs"][0]["argv"][0] == "./train");
  CHECK(later["elastic"]["discovery"]["source"] == "./hosts.sh --token <redacted>");
  CHECK(later["elastic"]["reset_limit"]["window"].is_null());
  CHECK(later["elastic"]["discovery"]["kind"] == "script");
}

TEST_CASE("control characters and bytes that are not UTF-8 do no harm") {
  auto job = two_hosts();
  job.env.push_back({"WILD", "a\x1b[2J\nb\xff"});
  CHECK(text_of(job).find('\x1b') == std::string::npos);
  CHECK(text_of(job).find("WILD='a\\x1b[2J\\x0ab") != std::string::npos);
  CHECK(nlohmann::json::parse(json_of(job))["ranks"][0]["env"]["WILD"] == "a\x1b[2J\nb\xef\xbf\xbd");
}

}  // namespace
}  // namespace trainrun::cli
