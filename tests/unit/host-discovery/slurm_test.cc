#include "host-discovery/slurm.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>

namespace trainrun::hosts {
namespace {

using Env = std::map<std::string, std::string, std::less<>>;

Result<std::vector<Host>> hosts_of(const Env& env) {
  return slurm_hosts([&](std::string_view name) -> std::optional<std::string> {
    const auto found = env.find(name);
    return found == env.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string shown(const Result<std::vector<Host>>& hosts) {
  if (!hosts) return "error: " + hosts.error().message;
  std::string out;
  for (const auto& host : *hosts) {
    out += out.empty() ? "" : " ";
    out += host.slots_given ? fmt::format("{}:{}", host.name, host.slots) : host.name;
  }
  return out;
}

TEST_CASE("outside a Slurm job there are no hosts and no error") {
  CHECK(shown(hosts_of({})).empty());
  CHECK(shown(hosts_of({{"SLURM_JOB_NODELIST", "n[1-2]"}})).empty());
  CHECK(shown(hosts_of({{"SLURM_JOB_ID", ""}, {"SLURM_JOB_NODELIST", "n[1-2]"}})).empty());
}

TEST_CASE("the environment of a job gives hosts and slots") {
  const std::pair<Env, const char*> table[] = {
      {{{"SLURM_JOB_ID", "3"}, {"SLURM_JOB_NODELIST", "node[1-3]"}, {"SLURM_TASKS_PER_NODE", "3,1(x2)"}},
       "node1:3 node2:1 node3:1"},
      {{{"SLURM_JOB_ID", "3"}, {"SLURM_NODELIST", "node[1-4]"}, {"SLURM_TASKS_PER_NODE", "8(x4)"}},
       "node1:8 node2:8 node3:8 node4:8"},
      {{{"SLURM_JOBID", "3"}, {"SLURM_JOB_NODELIST", "a,b"}, {"SLURM_TASKS_PER_NODE", "1,2"}}, "a:1 b:2"},
      {{{"SLURM_JOB_ID", "3"}, {"SLURM_JOB_NODELIST", "a,b"}}, "a b"},
      // A step of one node in a job of four: Slurm leaves the job's node list in place.
      {{{"SLURM_JOB_ID", "3"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_JOB_NODELIST", "node[1-4]"},
        {"SLURM_TASKS_PER_NODE", "1"},
        {"SLURM_STEP_NODELIST", "node2"},
        {"SLURM_STEP_TASKS_PER_NODE", "1"}},
       "node2:1"},
      // The batch script's own step stands for the job, under its name or its number.
      {{{"SLURM_JOB_ID", "3"},
        {"SLURM_STEP_ID", "batch"},
        {"SLURM_JOB_NODELIST", "node[1-2]"},
        {"SLURM_TASKS_PER_NODE", "4(x2)"},
        {"SLURM_STEP_NODELIST", "node1"}},
       "node1:4 node2:4"},
      {{{"SLURM_JOB_ID", "3"},
        {"SLURM_STEP_ID", "4294967291"},
        {"SLURM_JOB_NODELIST", "node[1-2]"},
        {"SLURM_TASKS_PER_NODE", "4(x2)"}},
       "node1:4 node2:4"},
      // A heterogeneous job: what has no suffix describes only its first component.
      {{{"SLURM_JOB_ID", "20"},
        {"SLURM_HET_SIZE", "2"},
        {"SLURM_JOB_NODELIST", "node1"},
        {"SLURM_TASKS_PER_NODE", "1"},
        {"SLURM_JOB_NODELIST_HET_GROUP_0", "node1"},
        {"SLURM_TASKS_PER_NODE_HET_GROUP_0", "1"},
        {"SLURM_JOB_NODELIST_HET_GROUP_1", "node[2-3]"},
        {"SLURM_TASKS_PER_NODE_HET_GROUP_1", "2(x2)"}},
       "node1:1 node2:2 node3:2"},
      {{{"SLURM_JOB_ID", "20"},
        {"SLURM_PACK_SIZE", "1"},
        {"SLURM_JOB_NODELIST_PACK_GROUP_0", "node1"},
        {"SLURM_TASKS_PER_NODE_PACK_GROUP_0", "6"}},
       "node1:6"},
  };
  for (const auto& [env, expected] : table) CHECK(shown(hosts_of(env)) == expected);
}

TEST_CASE("a job's environment that makes no sense is an error that names the variable") {
  const std::pair<Env, const char*> table[] = {
      {{{"SLURM_JOB_ID", "3"}}, "inside a Slurm job, but SLURM_JOB_NODELIST is not set"},
      {{{"SLURM_JOB_ID", "3"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", "a"}},
       "SLURM_STEP_NODELIST is not set"},
      {{{"SLURM_JOB_ID", "3"}, {"SLURM_JOB_NODELIST", "n[2-1]"}}, "SLURM_JOB_NODELIST: 'n[2-1]'"},
      {{{"SLURM_JOB_ID", "3"}, {"SLURM_JOB_NODELIST", ",,"}}, "SLURM_JOB_NODELIST names no host: ',,'"},
      {{{"SLURM_JOB_ID", "3"}, {"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}},
       "SLURM_TASKS_PER_NODE has 2 counts for the 3 hosts of SLURM_JOB_NODELIST: '2(x2)'"},
      {{{"SLURM_JOB_ID", "3"}, {"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "2(x3)"}},
       "SLURM_TASKS_PER_NODE has 3 counts for the 2 hosts of SLURM_JOB_NODELIST: '2(x3)'"},
      {{{"SLURM_JOB_ID", "3"}, {"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "2"}},
       "SLURM_TASKS_PER_NODE has 1 count for the 2 hosts of SLURM_JOB_NODELIST: '2'"},
      {{{"SLURM_JOB_ID", "3"}, {"SLURM_HET_SIZE", "129"}}, "SLURM_HET_SIZE is '129'"},
      {{{"SLURM_JOB_ID", "3"}, {"SLURM_HET_SIZE", "1"}}, "SLURM_JOB_NODELIST_HET_GROUP_0 is not set"},
  };
  for (const auto& [env, expected] : table) {
    const auto hosts = hosts_of(env);
    REQUIRE_FALSE(hosts.has_value());
    CHECK(hosts.error().code == Code::config);
    CHECK_MESSAGE(hosts.error().message.find(expected) != std::string::npos, hosts.error().message);
    CHECK(hosts.error().hint.find("--hosts-from none") != std::string::npos);
  }
}

TEST_CASE("counts follow Slurm's notation and nothing else") {
  CHECK(*expand_counts("3,1(x2)", 9) == std::vector{3, 1, 1});
  CHECK(*expand_counts("2(x65536)", 3) == std::vector{2, 2, 2});
  for (const auto* text : {"", ",", "1,", "0", "-1", "x", "1(x0)", "1(x)", "1(2)", "1(x2", "1x2)",
                           "1(x65537)", "65536", "1(x2)3", "1 ,2", "(x2)", "1(x-1)", "1(x99999999999)"}) {
    CAPTURE(text);
    CHECK_FALSE(expand_counts(text, 4).has_value());
  }
}

}  // namespace
}  // namespace trainrun::hosts
