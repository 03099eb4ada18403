// What the flags of an elastic job mean together, through the whole command line.
#include "cli/elastic.h"

#include <doctest/doctest.h>

#include <csignal>

#include "cli/elastic_value.h"
#include "launcher/core/placement.h"
#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

namespace {

// "2..4 of 3, first 3" for an elastic job, "np 3" for one that ends at its first failure.
std::string sizes(const JobSpec& job) {
  if (!job.elastic.enabled()) return "np " + std::to_string(job.world_size());
  std::string out = std::to_string(job.elastic.min_np) + ".." + std::to_string(job.elastic.max_np) + " of " +
                    std::to_string(job.world_size());
  return job.hosts.hosts.empty() ? out : out + ", first " + std::to_string(first_world(job)->seats.size());
}

std::string sizes(Words words) {
  words.emplace_back("./train");
  return sizes(job_of(std::move(words)));
}

World with_scripts() {
  World world;
  world.executables.insert({"/home/u/hosts.sh", "/usr/bin/curl"});
  world.files["/home/u/notes.sh"] = "";
  return world;
}

std::vector<std::string> notes_of(Words words) {
  World world = with_scripts();
  words.emplace_back("./train");
  auto request = world.read(std::move(words));
  REQUIRE(request.has_value());
  return request->notes;
}

}  // namespace

TEST_CASE("a job is elastic when one of the flags asks for it, unless --on-failure says otherwise") {
  const std::pair<Words, OnFailure> rows[] = {
      {{}, OnFailure::abort},
      {{"--min-np", "1"}, OnFailure::automatic},
      {{"--max-np", "2"}, OnFailure::automatic},
      {{"--min-num-proc", "2", "--max_num_proc=2"}, OnFailure::automatic},
      {{"--reset-limit", "3"}, OnFailure::automatic},
      {{"--max-restarts", "3"}, OnFailure::automatic},
      {{"--spares", "1"}, OnFailure::automatic},
      {{"--spares", "0"}, OnFailure::abort},
      {{"--on-failure", "auto"}, OnFailure::automatic},
      {{"--on-failure", "restart-world"}, OnFailure::restart_world},
      {{"--on-failure", "in-place", "--min-np", "1"}, OnFailure::in_place},
      {{"--on-failure", "abort", "--reset-limit", "3"}, OnFailure::abort},
      {{"--on-failure", "abort", "--spares", "1"}, OnFailure::abort},
      {{"--hang-timeout", "5m"}, OnFailure::abort},
      {{"--settle", "1", "--elastic-timeout", "5", "--leave-signal", "USR1", "--discovery-interval", "3",
        "--blacklist-cooldown-range", "1", "2"},
       OnFailure::abort},
  };
  for (const auto& [words, expected] : rows) {
    CAPTURE(words);
    Words line = {"-np", "2"};
    line.insert(line.end(), words.begin(), words.end());
    line.emplace_back("./train");
    CHECK(job_of(line).elastic.on_failure == expected);
  }
}

TEST_CASE("the values reach the job, and the defaults are those of the manual") {
  const auto plain = job_of({"-np", "2", "--min-np", "1", "./train"}).elastic;
  CHECK(plain.limit.count == 10);
  CHECK(plain.limit.window == std::chrono::hours(1));
  CHECK(plain.timeout == std::chrono::minutes(10));
  CHECK(plain.cooldown_min == seconds(10));
  CHECK(plain.cooldown_max == std::chrono::minutes(5));
  CHECK(plain.settle == seconds(2));
  CHECK_FALSE(plain.hang_timeout.has_value());
  CHECK(plain.leave_signal == SIGTERM);
  CHECK(plain.spares == 0);
  CHECK(plain.discovery.kind == DiscoveryKind::none);
  CHECK(plain.discovery.interval == seconds(1));

  World world = with_scripts();
  const auto job = job_of(world, {"-np",
                                  "4",
                                  "--min-np",
                                  "2",
                                  "--max-np",
                                  "8",
                                  "--host-discovery-script",
                                  "./hosts.sh --pool gpu",
                                  "--slots",
                                  "4",
                                  "--discovery-interval",
                                  "5",
                                  "--elastic-timeout",
                                  "1h",
                                  "--reset-limit",
                                  "3/10m",
                                  "--blacklist-cooldown-range",
                                  "30",
                                  "1h",
                                  "--spares",
                                  "2",
                                  "--hang-timeout",
                                  "15m",
                                  "--settle",
                                  "500ms",
                                  "--leave-signal",
                                  "usr1",
                                  "./train"})
                       .elastic;
  CHECK(job.min_np == 2);
  CHECK(job.max_np == 8);
  CHECK(job.discovery.kind == DiscoveryKind::script);
  CHECK(job.discovery.source == "./hosts.sh --pool gpu");
  CHECK(job.discovery.default_slots == 4);
  CHECK(job.discovery.default_slots_given);
  CHECK(job.discovery.interval == seconds(5));
  CHECK(job.timeout == std::chrono::hours(1));
  CHECK(job.limit.count == 3);
  CHECK(job.limit.window == std::chrono::minutes(10));
  CHECK(job.cooldown_min == seconds(30));
  CHECK(job.cooldown_max == std::chrono::hours(1));
  CHECK(job.spares == 2);
  CHECK(job.hang_timeout == std::chrono::minutes(15));
  CHECK(job.settle == milliseconds(500));
  CHECK(job.leave_signal == SIGUSR1);
  CHECK(job_of({"-np", "1", "--max-restarts", "7", "./train"}).elastic.limit.count == 7);
  CHECK(job_of({"-np", "1", "--max-restarts", "7", "./train"}).elastic.limit.window == whole_job);
  CHECK(job_of({"-np", "1", "--reset-limit", "0", "./train"}).elastic.limit.count == 0);
}

TEST_CASE("the sizes of the world: defaults, bounds, and what the hosts hold") {
  const std::pair<Words, std::string> rows[] = {
      // this host alone
      {{"-np", "4"}, "np 4"},
      {{"-np", "4", "--on-failure", "restart-world"}, "4..4 of 4, first 4"},
      {{"-np", "4", "--min-np", "2"}, "2..4 of 4, first 4"},
      {{"-np", "2", "--max-np", "4"}, "2..4 of 2, first 2"},
      {{"--min-np", "2"}, "2..2 of 2, first 2"},
      {{"--max-np", "3"}, "3..3 of 3, first 3"},
      {{"--min-np", "2", "--max-np", "3"}, "2..3 of 3, first 3"},
      {{"--max-restarts", "1"}, "4..4 of 4, first 4"},
      {{"-np", "2", "--spares", "1"}, "2..2 of 2, first 2"},
      // named hosts
      {{"-H", "a:4,b:4", "-np", "6", "--min-np", "2"}, "2..6 of 6, first 6"},
      {{"-H", "a:4,b:4", "-np", "4", "--max-np", "16"}, "4..16 of 4, first 8"},
      {{"-H", "a:4,b:4", "-np", "4", "--max-np", "16", "--spares", "1"}, "4..16 of 4, first 7"},
      {{"-H", "a:4,b:4", "-np", "8", "--spares", "2"}, "8..8 of 8, first 8"},
      {{"-H", "a:4,b:4", "-np", "7", "--max-np", "8", "--spares", "2"}, "7..8 of 7, first 7"},
      {{"-H", "a:4,b:4", "--spares", "2"}, "6..6 of 6, first 6"},
      {{"-H", "a:4,b:4", "--max-np", "16"}, "8..16 of 8, first 8"},
      {{"-H", "a:4,b:4", "--max-np", "6"}, "6..6 of 6, first 6"},
      {{"-H", "a:4,b:4", "--min-np", "4"}, "4..8 of 8, first 8"},
      {{"-H", "a:4,b:4", "--min-np", "4", "--spares", "1"}, "4..7 of 7, first 7"},
      {{"-H", "a:4,b:4", "--min-np", "4", "--max-np", "8", "--spares", "1"}, "4..8 of 7, first 7"},
      {{"-H", "a:4,b:4", "--min-np", "4", "--max-np", "16"}, "4..16 of 8, first 8"},
      {{"-H", "a:4", "-np", "8", "--min-np", "2"}, "2..8 of 8, first 4"},
      {{"-H", "a:4", "-np", "8", "--min-np", "2", "--oversubscribe"}, "2..8 of 8, first 8"},
      {{"-H", "a:4,b:4", "--ppn", "2", "-np", "8", "--min-np", "2"}, "2..8 of 8, first 4"},
      // torchrun's words
      {{"-H", "a:4,b:4", "--nnodes", "2", "--nproc-per-node", "3"}, "np 6"},
      {{"-H", "a,b,c", "--nnodes", "2:4", "--nproc-per-node", "8"}, "16..32 of 24, first 24"},
      {{"-H", "a,b,c,d,e", "--nnodes", "2:4", "--nproc_per_node=8"}, "16..32 of 32, first 32"},
      {{"-H", "a,b", "--nnodes", "2:2", "--nproc-per-node", "2", "--max-restarts", "3"},
       "4..4 of 4, first 4"},
      {{"--nnodes", "1"}, "np 4"},
      {{"--nnodes", "1:1", "--nproc-per-node", "2"}, "np 2"},
      {{"--nnodes=1", "--nproc-per-node", "2", "--max-restarts=3"}, "2..2 of 2, first 2"},
      {{"-H", "a:2", "--nnodes", "1"}, "np 2"},
  };
  for (const auto& [words, expected] : rows) {
    CAPTURE(words);
    CHECK(sizes(words) == expected);
  }
  CHECK(shown(job_of({"-np", "2", "--spares", "1", "./train"})) == "localhost:3 np 2");
}

TEST_CASE("the first world is placed on what is there") {
  const auto job = job_of({"-H", "a:2,b:2", "-np", "8", "--min-np", "2", "./train"});
  const auto placed = first_world(job);
  REQUIRE(placed.has_value());
  CHECK(placed->seats.size() == 4);
  CHECK(placed->groups == 2);
  CHECK(job.world_size() == 8);  // what was asked for stays known
}

TEST_CASE("with a discovery the hosts are not known yet") {
  const std::pair<Words, std::string> rows[] = {
      {{"--host-discovery-script", "./hosts.sh", "-np", "4"}, "4..4 of 4"},
      {{"--host-discovery-script", "./hosts.sh", "-np", "4", "--min-np", "2", "--max-np", "8"}, "2..8 of 4"},
      {{"--host-discovery-script", "./hosts.sh", "--min-np", "2"}, "2..2 of 2"},
      {{"--discover", "file:pool.txt", "--min-np", "2", "--max-np", "8"}, "2..8 of 2"},
      {{"--discover", "dns:workers.example.org", "-np", "2"}, "2..2 of 2"},
      {{"--discover", "script:curl -s http://x/ | sort", "-np", "2"}, "2..2 of 2"},
      {{"--discover", "slurm", "-np", "2", "--hosts-from", "none"}, "2..2 of 2"},
      {{"--discover", "file:pool.txt", "--nnodes", "2:4", "--nproc-per-node", "8"}, "16..32 of 16"},
  };
  for (const auto& [words, expected] : rows) {
    CAPTURE(words);
    World world = with_scripts();
    world.environment.emplace_back("SLURM_JOB_ID", "7");
    world.environment.emplace_back("SLURM_JOB_NODELIST", "n[1-2]");
    world.environment.emplace_back("MY_DATA", "x");
    Words line = words;
    line.emplace_back("./nope");  // whether it is there is for the hosts to say
    const auto job = job_of(world, line);
    CHECK(sizes(job) == expected);
    CHECK(job.hosts.hosts.empty());
    CHECK(job.elastic.on_failure == OnFailure::automatic);
    CHECK_FALSE(job.inherit_all);
    CHECK(job.not_forwarded == std::vector<std::string>{"MY_DATA"});
    CHECK(world.facts_asked == 0);
  }
  World world;
  CHECK(job_of(world, {"--discover", "file:pool.txt", "-np", "2", "x"}).elastic.discovery.source ==
        "/home/u/pool.txt");
  CHECK(job_of(world, {"--discover", "file:/p", "--ppn", "8", "-np", "2", "x"})
            .elastic.discovery.default_slots == 8);
}

TEST_CASE("what was decided for the user is said in one line") {
  CHECK(notes_of({"--max-np", "3"}) == Words{"no -np: 3 ranks, as --max-np says"});
  CHECK(notes_of({"-H", "a:2", "--max-np", "3"}) == Words{"no -np: 2 ranks, all that the hosts hold"});
  CHECK(notes_of({"-H", "a:4", "--min-np", "1", "--spares", "1"}) ==
        Words{"no -np: 3 ranks, all that the hosts hold but the spares"});
  CHECK(notes_of({"-H", "a:4", "--min-np", "1", "--max-np", "3"}) ==
        Words{"no -np: 3 ranks, as --max-np says"});
  CHECK(notes_of({"--min-np", "1"}) == Words{"no -np: 1 rank, as --min-np says (--max-np allows more)"});
  CHECK(notes_of({"--host-discovery-script", "./hosts.sh", "--min-np", "2", "--max-np", "4"}) ==
        Words{"no -np: 2 to 4 ranks, as many as the hosts hold"});
  CHECK(notes_of({"-H", "a:4,b:4", "--spares", "1"}) ==
        Words{"no -np: 7 ranks, all slots of the hosts but 1 spare"});
  CHECK(notes_of({"-H", "a:4", "-np", "8", "--min-np", "2"}) ==
        Words{"-np 8: 4 ranks to begin with, all that the hosts hold"});
  CHECK(notes_of({"-H", "a:4", "-np", "4", "--min-np", "2", "--spares", "1"}).empty());
  CHECK(notes_of({"-H", "a,b,c", "--nnodes", "2:4", "--nproc-per-node", "8"}) ==
        Words{"--nnodes 2:4 with 8 a host: 16 to 32 ranks, 24 at the start"});
  CHECK(notes_of({"-H", "a,b", "--nnodes", "2", "--nproc-per-node", "8"}) ==
        Words{"--nnodes 2 with 8 a host: 16 ranks"});
  CHECK(notes_of({"--nnodes", "1", "--nproc-per-node", "2", "--max-restarts", "3"}).empty());
  CHECK(notes_of({"-np", "4", "--min-np", "2"}).empty());
}

TEST_CASE("a stronger layer overrules what a weaker one says to the same question") {
  World world = with_scripts();
  world.files["/home/u/j.toml"] =
      "hosts = \"a:4\"\nnp = 4\n[elastic]\nmin_np = 3\nreset_limit = \"5/1m\"\nblacklist_cooldown_range = "
      "[1, "
      "\"2m\"]\n";
  const auto read = [&](Words words) {
    words.insert(words.begin(), {"--config", "j.toml"});
    words.emplace_back("./train");
    return job_of(world, words);
  };
  CHECK(sizes(read({})) == "3..4 of 4, first 4");
  CHECK(read({}).elastic.cooldown_max == std::chrono::minutes(2));
  CHECK(read({"--max-restarts", "2"}).elastic.limit.window == whole_job);
  CHECK(read({"--host-discovery-script", "./hosts.sh"}).hosts.hosts.empty());
  CHECK(sizes(read({"--nnodes", "1:2", "--nproc-per-node", "2"})) == "2..4 of 2, first 2");
  CHECK(sizes(read({"-np", "3"})) == "3..3 of 3, first 3");
  world.environment.emplace_back("TRAINRUN_BLACKLIST_COOLDOWN_RANGE", "5 50");
  world.environment.emplace_back("TRAINRUN_MIN_NP", "1");
  CHECK(sizes(read({})) == "1..4 of 4, first 4");
  CHECK(read({}).elastic.cooldown_min == seconds(5));
  world.files["/home/u/j.toml"] = "[elastic]\ndiscover = \"file:p\"\n";
  CHECK(read({"-H", "a:2", "-np", "2"}).elastic.discovery.kind == DiscoveryKind::none);
  world.files["/home/u/j.toml"] = "[elastic]\nnnodes = 3\n";
  CHECK(sizes(read({"-np", "2"})) == "1..2 of 2, first 2");
}

TEST_CASE("ranks are named up to the largest world") {
  CHECK(job_of({"-np", "2", "--max-np", "4", "--only-rank", "3", "./train"}).only_ranks ==
        std::vector<int>{3});
  CHECK(error_of({"-np", "2", "--max-np", "4", "--only-rank", "4", "./train"}) ==
        "--only-rank: there is no rank 4; the job has ranks 0 to 3");
}

TEST_CASE("a flag of elastic jobs that changes nothing in this job is said, once") {
  CHECK(notes_of({"-np", "2", "--elastic-timeout", "5"}) ==
        Words{"--elastic-timeout changes nothing: the job ends at its first failure; --min-np, "
              "--max-restarts or a "
              "discovery make it elastic"});
  CHECK(notes_of({"-np", "2", "--settle", "1", "--discovery-interval", "3", "--leave-signal", "USR1"}) ==
        Words{"--settle and --leave-signal change nothing: the job ends at its first failure; --min-np, "
              "--max-restarts or a discovery make it elastic",
              "--discovery-interval changes nothing: nobody is asked for hosts; --host-discovery-script or "
              "--discover "
              "say who is"});
  CHECK(notes_of({"-np", "2", "--on-failure", "abort", "--max-restarts", "3"}) ==
        Words{"--max-restarts changes nothing: --on-failure abort ends the job at its first failure"});
  CHECK(notes_of({"-np", "2", "--min-np", "1", "--settle", "1", "--elastic-timeout", "5"}).empty());
  CHECK(notes_of({"--host-discovery-script", "./hosts.sh", "-np", "2", "--discovery-interval", "3"}).empty());
  World world;
  world.environment.emplace_back("TRAINRUN_SETTLE", "1");
  CHECK(world.read({"-np", "2", "./train"})->notes.empty());
}

TEST_CASE("what does not fit together is an error that says both sides and a cure") {
  World world = with_scripts();
  world.files["/home/u/j.toml"] = "np = 4\n[elastic]\nmin_np = 8\n";
  const std::pair<Words, std::string> rows[] = {
      {{"-np", "2", "--min-np", "4"}, "--min-np 4 is more than -np 2 | --min-np <= -np <= --max-np"},
      {{"-np", "8", "--max-np", "4"}, "--max-np 4 is less than -np 8 | --min-np <= -np <= --max-np"},
      {{"--min-np", "8", "--max-np", "4"},
       "--min-np 8 is more than --max-np 4 | --min-np <= -np <= --max-np"},
      {{"--config", "j.toml"},
       "--min-np 8 (j.toml:3:10) is more than -np 4 (j.toml:1:6) | --min-np <= -np <= --max-np"},
      {{"-np", "2", "--on-failure", "abort", "--min-np", "1"},
       "--on-failure abort ends the job at the first failure, and --min-np 1 is for a job that goes on | "
       "drop "
       "one of them; --on-failure auto is the default of an elastic job"},
      {{"-np", "2", "--on-failure", "abort", "--discover", "file:x"},
       "--on-failure abort ends the job at the first failure, and --discover file:x is for a job that goes "
       "on "
       "| drop one of them; --on-failure auto is the default of an elastic job"},
      {{"-np", "2", "--discover", "file:x", "--host-discovery-script", "./hosts.sh"},
       "--host-discovery-script ./hosts.sh and --discover file:x both say where the hosts come from | keep "
       "one "
       "of them"},
      {{"-np", "2", "--max-restarts", "1", "--reset-limit", "3"},
       "--reset-limit 3 and --max-restarts 1 both say how many restarts | keep one of them"},
      {{"-np", "2", "-H", "a", "--host-discovery-script", "./hosts.sh"},
       "--host-discovery-script and -H a both say which hosts | drop -H: the first hosts come from the "
       "discovery too"},
      {{"-np", "2", "--hostfile", "hosts.txt", "--discover", "dns:x"},
       "--discover and --hostfile hosts.txt both say which hosts | drop --hostfile: the first hosts come "
       "from "
       "the discovery too"},
      {{"-np", "2", "--hosts-from", "slurm", "--discover", "dns:x"},
       "--discover and --hosts-from slurm both say which hosts | drop --hosts-from: the first hosts come "
       "from "
       "the discovery too"},
      {{"-np", "2", "--discover", "slurm"},
       "--discover slurm: this is not inside a Slurm job (SLURM_JOB_ID is not set) | start it with sbatch or "
       "salloc, or write --discover script:CMD"},
      {{"--host-discovery-script", "./hosts.sh"},
       "--host-discovery-script: how many ranks? The hosts are not known yet | add --min-np N, and --max-np "
       "N "
       "to let the job grow"},
      {{"--discover", "file:x", "--max-np", "4"},
       "--discover: how many ranks? The hosts are not known yet | add --min-np N, and --max-np N to let the "
       "job grow"},
      {{"-np", "2", "--host-discovery-script", "./nope.sh"},
       "--host-discovery-script: '/home/u/nope.sh' does not exist | a relative path is taken from where you "
       "are"},
      {{"-np", "2", "--discover", "script:./notes.sh -a"},
       "--discover: '/home/u/notes.sh' is not executable | chmod +x ./notes.sh"},
      {{"-H", "a:2", "-np", "8", "--min-np", "4"},
       "--min-np 4 needs 4 slots, the hosts have 2 | give the hosts more slots (name:slots), name more "
       "hosts, or "
       "lower it; hosts that are still to come need --host-discovery-script or --discover"},
      {{"-H", "a", "--nnodes", "2:4", "--nproc-per-node", "8"},
       "--nnodes 2:4 needs 16 slots, the hosts have 8 | give the hosts more slots (name:slots), name more "
       "hosts, or lower it; hosts that are still to come need --host-discovery-script or --discover"},
      {{"-H", "a:2", "-np", "4", "--on-failure", "restart-world"},
       "-np 4 needs 4 slots, the host has 2 | write -H a:4, or add --oversubscribe"},
      {{"-np", "2", "--nnodes", "1"}, "--nnodes 1 and -np 2 both say how many ranks | keep one of them"},
      {{"--nnodes", "2:4"},
       "--nnodes 2:4 says how many hosts, not how many ranks | add --nproc-per-node N, the ranks of each "
       "host"},
      {{"--nnodes", "2", "--nproc-per-node", "4"},
       "--nnodes 2, but no hosts were given | add -H a,b,... or --hostfile FILE; trainrun is typed once, "
       "not "
       "on every host"},
      {{"-H", "a,b", "--nnodes", "60000", "--nproc-per-node", "60000"},
       "--nnodes 60000: 3600000000 ranks are more than a million"},
      {{"--min-np", "1", "-np", "1", "./train", ":", "-np", "2"},
       "--min-np 1, but the 2 programs make exactly 3 ranks | a world of several programs cannot grow or "
       "shrink: "
       "drop it, or start one program"},
      {{"--nnodes", "1:2", "-np", "1", "./train", ":", "-np", "2"},
       "--nnodes 1:2 is for a single program | with several, each has its own -np"},
      {{"-np", "2", "--check-hosts", "--discover", "file:x"},
       "--check-hosts needs to know the hosts, and a discovery tells them to a running job only | name them "
       "instead: trainrun --check-hosts -H a,b ..."},
      {{"-np", "2", "--blacklist-cooldown-range", "10"},
       "--blacklist-cooldown-range: '10 ./train' is not two times, the shorter one first, as in 10 300"},
  };
  for (const auto& [words, expected] : rows) {
    CAPTURE(words);
    Words line = words;
    line.emplace_back("./train");
    CHECK(error_of(world, line) == expected);
  }
}

TEST_CASE("several programs may be restarted, with as many ranks as they have") {
  CHECK(sizes(job_of({"--min-np", "3", "--on-failure", "restart-world", "-np", "1", "./server", ":", "-np",
                      "2", "./client"})) == "3..3 of 3, first 3");
}
