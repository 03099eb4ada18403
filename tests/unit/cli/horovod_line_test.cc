#include "cli/horovod_line.h"

#include <doctest/doctest.h>

#include <set>

#include "cli/horovod_flags.h"
#include "cli/program.h"
#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

namespace {

struct Listed {
  std::string_view names;  // with blanks between
  Takes takes;
  std::string_view fate;
};
constexpr auto none = Takes::nothing;
constexpr auto one = Takes::a_value;

// All options of horovodrun 0.28.1 (horovod/runner/launch.py), the hidden ones too, and what becomes of each.
constexpr Listed of_horovodrun[] = {
    {"-v --version -cb --check-build --verbose -prefix-timestamp --prefix-output-with-timestamp --gloo --mpi "
     "--tcp "
     "--hierarchical-allreduce --no-hierarchical-allreduce --hierarchical-allgather "
     "--no-hierarchical-allgather --torus-allreduce --no-torus-allreduce --autotune --no-autotune "
     "--timeline-mark-cycles --no-timeline-mark-cycles --no-stall-check --stall-check --mpi-threads-disable "
     "--no-mpi-threads-disable --log-with-timestamp --log-without-timestamp --log-hide-timestamp "
     "--no-log-hide-timestamp",
     none, "works"},
    {"-np --num-proc --start-timeout --network-interfaces --network-interface --output-filename "
     "--config-file -p "
     "--ssh-port -i --ssh-identity-file --fusion-threshold-mb --cycle-time-ms --cache-capacity "
     "--autotune-log-file --autotune-warmup-samples --autotune-steps-per-sample "
     "--autotune-bayes-opt-max-samples --autotune-gaussian-process-noise --min-np --min-num-proc --max-np "
     "--max-num-proc --slots-per-host --elastic-timeout --reset-limit --timeline-filename "
     "--stall-check-warning-time-seconds --stall-check-shutdown-time-seconds --num-nccl-streams "
     "--thread-affinity --gloo-timeout-seconds --log-level -H --hosts -hostfile --hostfile "
     "--host-discovery-script",
     one, "works"},
    {"--blacklist-cooldown-range", Takes::two_values, "works"},
    {"--disable-cache", none, "needless"},
    {"--binding-args", one, "needless"},
    {"--jsrun", none, "refused"},
    {"--mpi-args", one, "needless"}};

const HorovodFlag* row_named(std::string_view name) {
  const Flag* flag = find_flag(horovod_line(), name);
  if (flag == nullptr) return nullptr;
  const auto at = static_cast<std::size_t>(flag - horovod_line().flags.data());
  return at < horovod_flags().size() ? &horovod_flags()[at] : nullptr;
}

std::string_view fate_of(const HorovodFlag& row) {
  return row.fate == Fate::needless ? "needless" : row.fate == Fate::refused ? "refused" : "works";
}

World horovodrun() {
  World world;
  world.called_as = "horovodrun";
  return world;
}

JobSpec job(Words words) {
  auto world = horovodrun();
  return job_of(world, std::move(words));
}

std::string error(Words words) {
  auto world = horovodrun();
  return error_of(world, std::move(words));
}

std::set<std::string> tuned(Words words) { return tuned(horovodrun(), std::move(words)); }

using Set = std::set<std::string>;

}  // namespace

TEST_CASE("every option of horovodrun has a row, which takes as many words and has the fate that is told") {
  std::set<const HorovodFlag*> listed;
  for (const auto& [names, takes, fate] : of_horovodrun) {
    for (std::size_t at = 0; at < names.size();) {
      const auto end = std::min(names.find(' ', at), names.size());
      const auto name = std::string(names.substr(at, end - at));
      CAPTURE(name);
      const auto* row = row_named(name);
      REQUIRE(row != nullptr);
      listed.insert(row);
      CHECK(row->takes == takes);
      CHECK(fate_of(*row) == fate);
      at = end + 1;
    }
  }
  CHECK(listed.size() == horovod_flags().size());
  for (const auto& row : horovod_flags()) {
    CAPTURE(row.names.front());
    CHECK((row.fate == Fate::works || row.fate == Fate::reads) == row.why.empty());
    CHECK((row.how == HorovodHow::variable) == !row.variable.empty());
    CHECK((row.fate == Fate::reads) == (row.how != HorovodHow::none));
  }
}

TEST_CASE("the name, or --compat-cli horovodrun, says whose line it is") {
  World world;
  CHECK(tuned(world, {"--compat-cli", "horovodrun", "--cycle-time-ms", "2.5"}) == Set{"CYCLE_TIME=2.5"});
  world.called_as = "horovodrun-0.28";
  CHECK(tuned(world, {"--cycle-time-ms", "2.5"}) == Set{"CYCLE_TIME=2.5"});
  const auto shown = horovodrun().read({"-v"});
  REQUIRE(shown.has_value());
  CHECK(shown->action == Action::version);
  CHECK(shown->text.find("0.28.1\n") == 0);
  const auto help = horovodrun().read({"--help"});
  REQUIRE(help.has_value());
  CHECK(help->text.find("--blacklist-cooldown-range") != std::string::npos);
}

TEST_CASE("options that contradict each other are refused, as horovodrun refuses them") {
  const std::pair<Words, std::string> all[] = {
      {{"--gloo", "--mpi"}, "argument --mpi: not allowed with argument --gloo"},
      {{"--mpi", "--gloo"}, "argument --gloo: not allowed with argument --mpi"},
      {{"--autotune", "--no-autotune"}, "argument --no-autotune: not allowed with argument --autotune"},
      {{"--no-stall-check", "--stall-check"}, "argument --stall-check: not allowed with argument --no-stall"},
      {{"--log-hide-timestamp", "--log-with-timestamp"}, "argument --log-with-timestamp: not allowed with "}};
  for (auto [words, answer] : all) {
    words.insert(words.end(), {"-np", "2", "./train"});
    CHECK(error(words).find(answer) == 0);
  }
  auto world = horovodrun();
  world.files["/home/u/hf"] = "localhost slots=2\n";
  CHECK(error_of(world, {"-np", "2", "-H", "localhost:2", "-hostfile", "hf", "./train"}) ==
        "argument -hostfile: not allowed with argument -H | leave one of them out");
  CHECK(error_of(world, {"-np", "2", "--hostfile", "hf", "--hosts", "localhost:2", "./train"}) ==
        "argument --hosts: not allowed with argument --hostfile | leave one of them out");
  world.called_as = "trainrun";
  CHECK(error_of(world, {"--gloo", "-np", "2", "-H", "localhost:2", "--hostfile", "hf", "./train"})
            .find("argument --hostfile: not allowed with argument -H") == 0);
  CHECK(job_of(world, {"-np", "2", "-H", "localhost:2", "--hostfile", "hf", "./train"}).world_size() == 2);
  CHECK(job({"-np", "2", "-H", "a:1", "-H", "b:1", "./train"}).hosts.hosts.size() == 2);
  CHECK(tuned({"--autotune", "--autotune"}) == Set{"AUTOTUNE=1"});
  CHECK(job({"--gloo", "--gloo", "-np", "2", "./train"}).compat == Compat::horovod);
}

TEST_CASE("how many and where") {
  CHECK(shown(job({"-np", "3", "-H", "a:2,b:2", "./train"})).find("a:2 b:2") == 0);
  CHECK(job({"-np", "3", "-H", "a:2,b:2", "./train"}).world_size() == 3);
  CHECK(job({"-np=3", "--hostfile", "hosts.txt", "./train"}).world_size() == 3);
  CHECK(job({"--slots", "2", "--host-discovery-script", "/home/u/server", "-np", "2", "./train"})
            .elastic.discovery.default_slots == 2);
  const auto elastic = job({"-np", "2", "--min-np", "1", "--max-np", "4", "-H", "a:2,b:2",
                            "--blacklist-cooldown-range", "5", "50", "--reset-limit", "3", "./train"});
  CHECK(elastic.elastic.min_np == 1);
  CHECK(elastic.elastic.max_np == 4);
  CHECK(elastic.elastic.cooldown_max == seconds(50));
  CHECK(elastic.elastic.limit.count == 3);
  const auto reached = job({"-np", "1", "-p", "2222", "-H", "a", "--network-interface", "eth1", "./train"});
  CHECK(reached.ssh.port == 2222);
  CHECK(reached.network_interface == "eth1");
  CHECK(job({"-np", "1", "--gloo", "./train"}).compat == Compat::horovod);
  CHECK(job({"-np", "1", "./train"}).compat == Compat::horovod);
  CHECK(job({"-np", "1", "--mpi", "./train"}).compat == Compat::automatic);
  CHECK(job({"-np", "1", "--compat", "auto", "./train"}).compat == Compat::automatic);
  CHECK(job({"-np", "2", "-H", "localhost:1,here:1", "./train"}).hosts.hosts.size() == 2);
  CHECK(job({"-np", "1", "./train", "-v", "--mpi-args", "x"}).programs.front().argv.size() == 4);
}

TEST_CASE("a long option may be cut short where no other of Horovod's begins so, whatever trainrun's are") {
  CHECK(job({"--num-p", "2", "./train"}).world_size() == 2);
  CHECK(job({"-np", "1", "--verb", "./train"}).verbose == 1);
  CHECK(job({"-np", "1", "--output-f", "x", "./train"}).output_directory.ends_with("x"));
  CHECK(tuned({"--fusion", "32"}) == Set{"FUSION_THRESHOLD=33554432"});
  CHECK(error({"--num", "1", "./train"}).find("'--num' may be --num-proc or --num-nccl-streams") !=
        std::string::npos);
  CHECK(error({"--nodes", "1", "./train"}).find("horovodrun has no option '--nodes'") != std::string::npos);
}

TEST_CASE("settings become Horovod's variables") {
  CHECK(tuned({"--fusion-threshold-mb", "32", "--cycle-time-ms", "2.5", "--cache-capacity", "0"}) ==
        Set{"FUSION_THRESHOLD=33554432", "CYCLE_TIME=2.5", "CACHE_CAPACITY=0"});
  CHECK(tuned({"--no-hierarchical-allgather", "--torus-allreduce"}) ==
        Set{"HIERARCHICAL_ALLGATHER=0", "TORUS_ALLREDUCE=1"});
  CHECK(tuned({"--timeline-mark-cycles"}).empty());
  CHECK(tuned({"--timeline-mark-cycles", "--timeline-filename", "/t.json"}) ==
        Set{"TIMELINE=/t.json", "TIMELINE_MARK_CYCLES=1"});
  CHECK(tuned({"--autotune-log-file", "/log", "--autotune-warmup-samples", "3"}).empty());
  CHECK(tuned({"--autotune", "--autotune-log-file", "/log", "--autotune-gaussian-process-noise", "0.5"}) ==
        Set{"AUTOTUNE=1", "AUTOTUNE_LOG=/log", "AUTOTUNE_GAUSSIAN_PROCESS_NOISE=0.5"});
  CHECK(tuned({"--no-stall-check", "--log-level", "DEBUG", "--log-without-timestamp"}) ==
        Set{"STALL_CHECK_DISABLE=1", "LOG_LEVEL=DEBUG", "LOG_HIDE_TIME=1"});
  CHECK(tuned({"--tcp", "--network-interfaces", "eth0,ib0"}) ==
        Set{"NCCL_IB_DISABLE=1", "NCCL_SOCKET_IFNAME=eth0,ib0"});
  CHECK(tuned({"--mpi"}) == Set{"CONTROLLER=mpi", "CPU_OPERATIONS=mpi"});
}

TEST_CASE("values that Horovod would not take are refused") {
  CHECK(error({"--cycle-time-ms", "-1", "./train"}).find("'-1' is not a number of 0 or more") !=
        std::string::npos);
  CHECK(error({"--fusion-threshold-mb", "1.5", "./train"}).find("is not a number of megabytes") !=
        std::string::npos);
  CHECK(error({"--autotune-gaussian-process-noise", "1.5", "./train"}).find("is not a number from 0 to 1") !=
        std::string::npos);
  CHECK(error({"--log-level", "LOUD", "./train"}).find("is not one of TRACE") != std::string::npos);
  CHECK(error({"--jsrun", "./train"}).find("--jsrun is not supported | hosts are reached by ssh") == 0);
  CHECK(error({"--frobnicate", "./train"}).find("horovodrun has no option '--frobnicate'") == 0);
}

TEST_CASE("what has no effect is said") {
  const auto request = horovodrun().read({"--disable-cache", "-np", "1", "./train"});
  REQUIRE(request.has_value());
  REQUIRE_FALSE(request->notes.empty());
  CHECK(request->notes.front().find("--disable-cache") != std::string::npos);
}

TEST_CASE("the configuration file holds where no flag does") {
  auto world = horovodrun();
  world.files["/home/u/h.yaml"] =
      "controller: gloo\n"
      "params:\n  fusion_threshold_mb: 32\n  cycle_time_ms: 2.5\n  hierarchical_allreduce: false\n"
      "autotune:\n  enabled: true\n  log_file: /a.log\n"
      "timeline:\n  filename:\n  mark_cycles: true\n"
      "stall_check:\n  enabled: false\n"
      "logging:\n  level: INFO\n  with_timestamp: true\n";
  CHECK(tuned(world, {"--config-file", "h.yaml", "--cycle-time-ms", "5"}) ==
        Set{"FUSION_THRESHOLD=33554432", "CYCLE_TIME=5", "HIERARCHICAL_ALLREDUCE=0", "AUTOTUNE=1",
            "AUTOTUNE_LOG=/a.log", "STALL_CHECK_DISABLE=1", "LOG_LEVEL=INFO", "LOG_HIDE_TIME=0"});
  CHECK(job_of(world, {"--config-file", "h.yaml", "./train"}).compat == Compat::horovod);
  CHECK(tuned(world, {"--config-file", "h.yaml", "--no-autotune", "--stall-check"})
            .contains("STALL_CHECK_DISABLE=0"));

  world.files["/home/u/h.yaml"] =
      "hosts: [a, b]\nmine: &mine {cycle_time_ms: 7, cache_capacity: 1}\n"
      "params:\n  <<: *mine\n  cache_capacity: 2\n  cache_capacity: 3\n";
  CHECK(tuned(world, {"--config-file", "h.yaml"}) == Set{"CYCLE_TIME=7", "CACHE_CAPACITY=3"});
  world.files["/home/u/h.yaml"] = "params: &p\n  <<: *p\n  cache_capacity: 2\n";
  CHECK(tuned(world, {"--config-file", "h.yaml"}) == Set{"CACHE_CAPACITY=2"});

  world.files["/home/u/h.yaml"] = "params:\n  fusion_threshold_mb: 32.0\n  cache_capacity: 7.\n";
  CHECK(tuned(world, {"--config-file", "h.yaml"}) == Set{"FUSION_THRESHOLD=33554432", "CACHE_CAPACITY=7"});
  world.files["/home/u/h.yaml"] =
      "params:\n  fusion_threshold_mb: 12.5\n  cycle_time_ms: 0x10\n  cache_capacity: 1_000\n"
      "stall_check:\n  warning_time_seconds: 60.5\n";
  CHECK(tuned(world, {"--config-file", "h.yaml"}) == Set{"FUSION_THRESHOLD=13107200", "CYCLE_TIME=16",
                                                         "CACHE_CAPACITY=1000",
                                                         "STALL_CHECK_TIME_SECONDS=60"});
  for (const std::string yes : {"True", "TRUE", "Yes", "ON", "on"}) {
    world.files["/home/u/h.yaml"] = "autotune:\n  enabled: " + yes + "\n";
    CHECK(tuned(world, {"--config-file", "h.yaml"}) == Set{"AUTOTUNE=1"});
  }
  for (const std::string controller : {"gloo", "GLOO", "Gloo"}) {
    world.files["/home/u/h.yaml"] = "controller: " + controller + "\n";
    CHECK(job_of(world, {"--config-file", "h.yaml", "./train"}).compat == Compat::horovod);
  }
  world.files["/home/u/h.yaml"] = "autotune:\n  enabled: tRue\n";
  CHECK_FALSE(world.read({"--config-file", "h.yaml", "./train"}).has_value());
  const auto wrong = [&](const std::string& text) {
    world.files["/home/u/h.yaml"] = text;
    return error_of(world, {"--config-file", "h.yaml", "./train"});
  };
  CHECK(wrong("params:\n  cycle_time_ms: fast\n") == "h.yaml:2:18: 'fast' is not a number of 0 or more");
  CHECK(wrong("params:\n  cache_capacity: -7.5\n") == "h.yaml:2:19: '-7.5' is not a number of 0 or more");
  CHECK(wrong("controller: jsrun\n") == "h.yaml:1:13: 'jsrun' is not gloo or mpi");
  CHECK(wrong("params:\n  torus_allreduce: maybe\n") == "h.yaml:2:20: 'maybe' is not true or false");
  CHECK(wrong("params: [1]\n").find("h.yaml:1:9: no mapping of names to values") == 0);
  CHECK(wrong("params: {a: b\n").find("h.yaml:") == 0);
  CHECK(wrong("params:\n  cycle_time_ms: *nobody\n") == "h.yaml:2:18: found undefined alias");
  CHECK(wrong("params:\n  ? [cycle_time_ms]\n  : 1\n") == "h.yaml:2:5: a name is expected");
  CHECK(wrong("params:\n  cycle_time_ms: [1]\n") == "h.yaml:2:18: one value is expected");
  CHECK(wrong("params:\n  cycle_time_ms: \"~\"\n") == "h.yaml:2:18: '~' is not a number of 0 or more");
  CHECK(wrong("a\x01: 1\n") == "h.yaml: control characters are not allowed at byte 1");
  CHECK(wrong(std::string(1'000'000, '[')) == "h.yaml:1:51: too deeply nested");
  CHECK(error({"--config-file", "none.yaml", "./train"}).find("No such file") != std::string::npos);
  world.files["/home/u/h.yaml"] = "np: 3\n";
  const auto request = world.read({"--config-file", "h.yaml", "./train"});
  REQUIRE(request.has_value());
  CHECK(request->notes.front() == "h.yaml:1:5: horovodrun has no setting 'np': it is ignored");
}

TEST_CASE("--check-build is answered by the Horovod of the program's Python") {
  const auto command = [](Words words) {
    const auto request = horovodrun().read(std::move(words));
    REQUIRE(request.has_value());
    CHECK(request->action == Action::check_build);
    return request->rest;
  };
  const auto words = command({"--check-build"});
  CHECK(words.front() == "python3");
  CHECK(words.back().find("run_module('horovod.runner.launch'") != std::string::npos);
  CHECK(command({"-cb", "/venv/bin/python", "train.py"}).front() == "/venv/bin/python");
}

TEST_CASE("what the line says goes before variables that are left over from another run") {
  auto world = called("horovodrun", {{"HOROVOD_CONTROLLER", "mpi"},
                                     {"HOROVOD_CPU_OPERATIONS", "mpi"},
                                     {"HOROVOD_GLOO_IFACE", "foo"},
                                     {"NCCL_SOCKET_IFNAME", "foo"},
                                     {"HOROVOD_START_TIMEOUT", "0"},
                                     {"CUDA_VISIBLE_DEVICES", "7"}});
  const auto told = [&](const Words& words, const char* name) {
    return variable(job_of(world, words).env, name);
  };
  const Words plain{"-np", "1", "-H", "a", "./train"};
  CHECK(told(plain, "HOROVOD_CONTROLLER") == "gloo");
  CHECK(told(plain, "HOROVOD_CPU_OPERATIONS") == "gloo");
  CHECK(told(plain, "NCCL_SOCKET_IFNAME") == "foo");
  CHECK(told({"-np", "1", "--mpi", "-H", "a", "./train"}, "HOROVOD_CONTROLLER") == "mpi");
  CHECK(told({"-np", "1", "-x", "HOROVOD_CONTROLLER=other", "-H", "a", "./train"}, "HOROVOD_CONTROLLER") ==
        "other");
  const Words network{"-np", "1", "-H", "a", "--network-interface", "ib0", "./train"};
  CHECK(told(network, "HOROVOD_GLOO_IFACE") == "ib0");
  CHECK(told(network, "NCCL_SOCKET_IFNAME") == "ib0");
  CHECK(told(plain, "CUDA_VISIBLE_DEVICES").empty());  // its numbers are others there
  CHECK(told({"-np", "1", "-H", "a", "-x", "CUDA_VISIBLE_DEVICES", "./train"}, "CUDA_VISIBLE_DEVICES") ==
        "7");
}

TEST_CASE("without -np and hosts an elastic job has as many ranks as it needs") {
  CHECK(job({"--min-np", "2", "./train"}).world_size() == 2);
}

TEST_CASE("variables that stand for time-outs hold where no flag does, and a bad one is named") {
  const auto world = [](const char* name, const char* value) {
    return called("horovodrun", {{name, value}});
  };
  auto starts = world("HOROVOD_START_TIMEOUT", "90");
  auto waits = world("HOROVOD_ELASTIC_TIMEOUT", "77");
  CHECK(job_of(starts, {"-np", "1", "./train"}).start_timeout == seconds(90));
  CHECK(job_of(starts, {"-np", "1", "--start-timeout", "5", "./train"}).start_timeout == seconds(5));
  CHECK(job_of(waits, {"-np", "2", "--min-np", "1", "-H", "a:2", "./train"}).elastic.timeout == seconds(77));
  CHECK(job_of(waits, {"-np", "2", "--min-np", "1", "-H", "a:2", "--elastic-timeout", "8", "./train"})
            .elastic.timeout == seconds(8));
  for (const char* name : {"HOROVOD_START_TIMEOUT", "HOROVOD_ELASTIC_TIMEOUT"}) {
    for (const char* bad : {"soon", "90s", "-1", "1.5"}) {
      auto wrong = world(name, bad);
      CHECK(error_of(wrong, {"-np", "1", "./train"}).find(std::string(name) + ": '" + bad + "' is not ") ==
            0);
    }
    auto wrong = world(name, "soon");
    const std::string flag =
        std::string(name).find("START") == std::string::npos ? "--elastic-timeout" : "--start-timeout";
    CHECK(job_of(wrong, {"-np", "2", "--min-np", "1", flag, "5", "./train"}).world_size() == 2);
    World ours;
    ours.environment.emplace_back(name, "soon");
    CHECK(job_of(ours, {"-np", "1", "./train"}).world_size() == 1);
  }
}
