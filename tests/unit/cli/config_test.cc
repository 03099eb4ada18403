#include "cli/config.h"

#include <doctest/doctest.h>

#include "launcher/base/exit_code.h"
#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

TEST_CASE("the defaults are those of the manual") {
  const auto job = job_of({"-np", "2", "./train"});
  CHECK(job.map_by == MapBy::slot);
  CHECK(job.bind_to == BindTo::none);
  CHECK(job.programs.at(0).directory == "/home/u");
  CHECK(job.stdin_to == StdinTo::rank);
  CHECK(job.stdin_rank == 0);
  CHECK_FALSE(job.timeout.has_value());
  CHECK(job.start_timeout == seconds(60));
  CHECK(job.grace == seconds(10));
  CHECK(job.host_timeout == seconds(10));
  CHECK(job.tag == Tag::automatic);
  CHECK(job.transport == TransportKind::automatic);
  CHECK(job.id == "0123456789abcdef");
  CHECK(job.inherit_all);
}

TEST_CASE("hosts and numbers of ranks") {
  const std::pair<Words, std::string> rows[] = {
      {{"-np", "400", "./train"}, "localhost:400 np 400"},
      {{"--ppn", "3", "./train"}, "localhost:3 np 3"},
      {{"-H", "gpu1:8,gpu2:8", "./train"}, "gpu1:8 gpu2:8 np 16"},
      {{"-np", "3", "-H", "gpu1:8,gpu2:8", "./train"}, "gpu1:8 gpu2:8 np 3"},
      {{"-H", "gpu1,gpu2", "./train"}, "gpu1:1 gpu2:1 np 2"},
      {{"-H", "gpu1,gpu2", "--slots-per-host", "4", "./train"}, "gpu1:4 gpu2:4 np 8"},
      {{"-H", "gpu1,gpu2:1", "--slots-per-host", "4", "./train"}, "gpu1:4 gpu2:1 np 5"},
      {{"-H", "gpu1,gpu2", "--ppn", "4", "./train"}, "gpu1:4 gpu2:4 np 8"},
      {{"-H", "gpu1:8,gpu2:8", "--map-by", "ppr:2:node", "./train"}, "gpu1:8 gpu2:8 np 4"},
      {{"-H", "gpu1:1,gpu1:2", "./train"}, "gpu1:3 np 3"},
      {{"-H", "localhost:1,here:2", "./train"}, "localhost:3 np 3"},
      {{"-H", "gpu1:2", "-H", "gpu2:2", "./train"}, "gpu1:2 gpu2:2 np 4"},
      {{"--hostfile", "hosts.txt", "./train"}, "gpu1:2 gpu2:2 np 4"},
      {{"--hostfile", "hosts.txt", "-H", "gpu2", "./train"}, "gpu2:2 np 2"},
      {{"--hostfile", "hosts.txt", "-H", "gpu2:1", "./train"}, "gpu2:1 np 1"},
      {{"-np", "9", "-H", "gpu1:2", "--oversubscribe", "./train"}, "gpu1:2 np 9"},
      {{"-H", "[fd00::1]:2", "./train"}, "fd00::1:2 np 2"},
      {{"-np", "1", "./server", ":", "-np", "3", "./client"}, "localhost:4 np 4"},
      {{"-H", "gpu1:4", "-np", "1", "./server", ":", "-np", "3", "./client"}, "gpu1:4 np 4"},
      {{"-np", "1", "./server", ":", "-H", "gpu1:4", "-np", "3", "./client"}, "gpu1:4 np 4"},
      {{"-H", "gpu1:4", "-np", "1", "./server", ":", "-v", "-H", "gpu1:4", "-np", "3", "./client"},
       "gpu1:4 np 4"},
  };
  for (const auto& [words, expected] : rows) CHECK(shown(job_of(words)) == expected);
}

TEST_CASE(
    "a host of a file keeps its own user, port and key, and a port of its own means that it is not this "
    "host") {
  World world;
  world.files["/home/u/rented.txt"] = "ssh://root@localhost:41022 slots=2 identity=~/.ssh/rented\n";
  const auto job = job_of(world, {"--hostfile", "rented.txt", "./nope"});
  const auto& host = job.hosts.hosts.at(0);
  CHECK(host.user == "root");
  CHECK(host.port == 41022);
  CHECK(host.identity == "/home/u/.ssh/rented");
  CHECK_FALSE(job.inherit_all);
}

TEST_CASE("without a number and hosts there is one rank a GPU, else one a core, and a note says so") {
  World world;
  auto request = world.read({"./train"});
  REQUIRE(request.has_value());
  CHECK(shown(request->job) == "localhost:4 np 4");
  CHECK(request->notes ==
        Words{"no -np and no hosts: 4 ranks on this host, one a physical core that may be used"});
  world.facts.gpus = 1;
  request = world.read({"./train"});
  CHECK(request->notes == Words{"no -np and no hosts: 1 rank on this host, one a GPU"});
  world.facts_asked = 0;
  CHECK(world.read({"-np", "2", "./train"})->notes.empty());
  CHECK(world.facts_asked == 0);
}

TEST_CASE("flags go before the environment, the environment before the file, the file before defaults") {
  World world;
  world.files["/home/u/j.toml"] = "np = 2\n[limits]\ngrace = 2\ntimeout = 2\nstart_timeout = 2\n";
  world.environment.insert(world.environment.end(), {{"TRAINRUN_GRACE", "3"}, {"TRAINRUN_TIMEOUT", "3"}});
  const auto job = job_of(world, {"--config", "j.toml", "--grace", "4", "./train"});
  CHECK(job.grace == seconds(4));
  CHECK(job.timeout == seconds(3));
  CHECK(job.start_timeout == seconds(2));
  CHECK(job.host_timeout == seconds(10));
  CHECK(job.world_size() == 2);
}

TEST_CASE("hosts of a flag replace the file's, and inside one layer -H filters --hostfile") {
  World world;
  world.files["/home/u/j.toml"] = "hostfile = \"hosts.txt\"\n";
  CHECK(shown(job_of(world, {"--config", "j.toml", "./train"})) == "gpu1:2 gpu2:2 np 4");
  CHECK(shown(job_of(world, {"--config", "j.toml", "-H", "other:3", "./train"})) == "other:3 np 3");
  CHECK(shown(job_of(world, {"--config", "j.toml", "--hosts-from", "none", "./train"})) ==
        "gpu1:2 gpu2:2 np 4");
  world.environment.emplace_back("TRAINRUN_HOSTS", "env:5");
  CHECK(shown(job_of(world, {"--config", "j.toml", "./train"})) == "env:5 np 5");
}

TEST_CASE("exports of all layers come together and the stronger wins for a name") {
  World world;
  world.files["/home/u/j.toml"] = "[env]\nA = \"file\"\nB = \"file\"\nC = \"file\"\n";
  world.environment.emplace_back("TRAINRUN_EXPORT", "B=env,C=env");
  const auto job =
      job_of(world, {"--config", "j.toml", "-x", "C=flag", "-x", "D=one", "-x", "D=two", "./train"});
  const auto value = [&](std::string_view name) {
    for (const auto& [key, text] : job.env) {
      if (key == name) return text;
    }
    return std::string("unset");
  };
  CHECK(value("A") == "file");
  CHECK(value("B") == "env");
  CHECK(value("C") == "flag");
  CHECK(value("D") == "two");
}

TEST_CASE("a host after a blank is no program") {
  const std::pair<Words, std::string> rows[] = {
      {{"-H", "node1", "node2", "node3", "./train"},
       "-H 'node1' 'node2': a space between two hosts | separate hosts with commas: -H node1,node2,node3"},
      {{"-np", "2", "-H", "a:2,b1:2", "b2:2", "./train"},
       "-H 'a:2,b1:2' 'b2:2': a space between two hosts | separate hosts with commas: -H a:2,b1:2,b2:2"},
      {{"-H", "node1 node2", "./train"},
       "-H: 'node1 node2': a space between two hosts | separate hosts with commas: node1,node2"},
      {{"-H", "node1,", "node2,", "other", "./train.py"},
       "-H 'node1,' 'node2,': a space between two hosts | separate hosts with commas: -H node1,node2,other"},
      {{"-H", "node1", ",", "b:2", "train"},
       "-H 'node1' ',': a space between two hosts | separate hosts with commas: -H node1,b:2"},
      {{"-H", "node1,", "./train"}, "no error"},
      {{"-H", "node1", "node2x", "./train"}, "no error"},
      {{"-H", "node1", "node", "./train"}, "no error"},
      {{"-H", "train1", "./train2"}, "no error"},
      {{"-H", "python1", "python3"}, "no error"},
      {{"-H", "node1", "-np", "1", "node2"}, "no error"},
  };
  for (const auto& [words, expected] : rows) {
    CAPTURE(words);
    CHECK(error_of(words) == expected);
  }
}

TEST_CASE("a Slurm job's hosts are taken when none are named") {
  World world;
  world.environment.insert(
      world.environment.end(),
      {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}});
  CHECK(shown(job_of(world, {"./train"})) == "n1:2 n2:2 np 4");
  CHECK(shown(job_of(world, {"-np", "3", "./train"})) == "n1:2 n2:2 np 3");
  CHECK(shown(job_of(world, {"-H", "other:2", "./train"})) == "other:2 np 2");
  CHECK(shown(job_of(world, {"--hosts-from", "slurm", "-H", "n2", "./train"})) == "n2:2 np 2");
  world.files["/home/u/j.toml"] = "hosts_from = \"slurm\"\n";
  CHECK(shown(job_of(world, {"--config", "j.toml", "--hostfile", "hosts.txt", "./train"})) ==
        "gpu1:2 gpu2:2 np 4");
  world.files["/home/u/j.toml"] = "hosts = \"other\"\n";
  CHECK(shown(job_of(world, {"--config", "j.toml", "--hosts-from", "slurm", "./train"})) == "n1:2 n2:2 np 4");
  CHECK(shown(job_of(world, {"--hosts-from", "none", "-np", "2", "./train"})) == "localhost:2 np 2");
  CHECK(error_of({"--hosts-from", "slurm", "./train"}) ==
        "--hosts-from slurm: this is not inside a Slurm job (SLURM_JOB_ID is not set) | start it with sbatch "
        "or salloc, "
        "or name the hosts with -H");
}

TEST_CASE("the working directory is absolute, or relative to the caller's") {
  CHECK(job_of({"-np", "1", "--wdir", "/tmp", "/bin/true"}).programs[0].directory == "/tmp");
  CHECK(job_of({"-np", "1", "--wdir", "sub", "/bin/true"}).programs[0].directory == "/home/u/sub");
  CHECK(job_of({"-np", "1", "--wdir", "~/sub", "/bin/true"}).programs[0].directory == "/home/u/sub");
  CHECK(job_of({"-H", "gpu1", "--wdir", "/far/away", "x"}).programs[0].directory == "/far/away");
  CHECK(error_of({"-np", "1", "--wdir", "nope", "/bin/true"}) ==
        "the working directory '/home/u/nope' does not exist | --wdir DIR chooses another one");
}

TEST_CASE("every flag reaches the job") {
  const auto job = job_of({"-H",
                           "gpu1:8",
                           "-np",
                           "2",
                           "--map-by",
                           "host",
                           "--ppn",
                           "4",
                           "--bind-to",
                           "numa",
                           "--cpus-per-rank",
                           "3",
                           "--gpus-per-rank",
                           "2",
                           "--oversubscribe",
                           "--tag",
                           "host",
                           "--timestamp",
                           "--output-filename",
                           "out",
                           "--events",
                           "e.jsonl",
                           "--only-rank",
                           "1",
                           "--stdin",
                           "1",
                           "-q",
                           "-vv",
                           "--timeout",
                           "1h",
                           "--start-timeout",
                           "5",
                           "--grace",
                           "0",
                           "--host-timeout",
                           "250ms",
                           "--transport",
                           "openssh",
                           "-p",
                           "2222",
                           "-i",
                           "~/k",
                           "--ssh-accept-new",
                           "--ssh-config",
                           "c",
                           "--agent-dir",
                           "/opt/a",
                           "--network-interface",
                           "ib0",
                           "--master-port",
                           "29500",
                           "--port-range",
                           "20000-20100",
                           "./train"});
  CHECK(job.map_by == MapBy::host);
  CHECK(job.ppr == 4);
  CHECK(job.bind_to == BindTo::numa);
  CHECK(job.cpus_per_rank == 3);
  CHECK(job.gpus_per_rank == 2);
  CHECK(job.oversubscribe);
  CHECK(job.tag == Tag::host);
  CHECK(job.timestamp);
  CHECK(job.output_directory == "/home/u/out");
  CHECK(job.events == "/home/u/e.jsonl");
  CHECK(job.only_ranks == std::vector<int>{1});
  CHECK(job.stdin_rank == 1);
  CHECK(job.quiet);
  CHECK(job.verbose == 2);
  CHECK(job.timeout == std::chrono::hours(1));
  CHECK(job.start_timeout == seconds(5));
  CHECK(job.grace == seconds(0));
  CHECK(job.host_timeout == milliseconds(250));
  CHECK(job.transport == TransportKind::openssh);
  CHECK(job.ssh.port == 2222);
  CHECK(job.ssh.identity == "/home/u/k");
  CHECK(job.ssh.accept_new);
  CHECK(job.ssh.config_file == "/home/u/c");
  CHECK(job.ssh.agent_dir == "/opt/a");
  CHECK(job.network_interface == "ib0");
  CHECK(job.master_port == 29500);
  CHECK(job.ports.first == 20000);
  CHECK(job.ports.last == 20100);
}

TEST_CASE("torchrun's words for the ranks of a host are counted on this host, and asked for elsewhere") {
  World world;
  world.facts = {.cores = 6, .gpus = 2};
  CHECK(shown(job_of(world, {"--nproc-per-node", "gpu", "./train"})) == "localhost:2 np 2");
  CHECK(shown(job_of(world, {"--nproc_per_node=auto", "./train"})) == "localhost:2 np 2");
  CHECK(shown(job_of(world, {"--nproc-per-node", "cpu", "./train"})) == "localhost:6 np 6");
  CHECK(shown(job_of(world, {"-H", "localhost", "--nproc-per-node", "cpu", "./train"})) ==
        "localhost:6 np 6");
  CHECK(shown(job_of(world, {"--nnodes", "1", "--nproc-per-node", "gpu", "./train"})) == "localhost:2 np 2");
  const auto request = world.read({"--nproc-per-node", "gpu", "./train"});
  CHECK(request->notes == std::vector<std::string>{"--nproc-per-node gpu: 2 ranks, one a GPU"});
  world.files["/home/u/j.toml"] = "[placement]\nppn = \"auto\"\n";
  CHECK(shown(job_of(world, {"--config", "j.toml", "./train"})) == "localhost:2 np 2");
  for (const Words& hosts : {Words{"-H", "gpu1,gpu2"}, Words{"--discover", "file:pool", "-np", "2"}}) {
    Words line = hosts;
    line.insert(line.end(), {"--nproc-per-node", "auto", "./train"});
    CHECK(error_of(world, line) ==
          "--nproc-per-node auto: what other hosts have is not known before the start | write the number: "
          "--nproc-per-node 8");
  }
  world.facts.gpus = 0;
  CHECK(shown(job_of(world, {"--nproc-per-node", "auto", "./train"})) == "localhost:6 np 6");
  CHECK(error_of(world, {"--nproc-per-node", "gpu", "./train"}) ==
        "--nproc-per-node gpu: this host has no GPU that may be used | --nproc-per-node cpu is one rank a "
        "core; "
        "or write the number");
  CHECK(error_of(world, {"--nproc-per-node", "gpus", "./train"})
            .starts_with("--nproc-per-node: 'gpus' is not a whole number from 1 to 65536"));
}

TEST_CASE("--standalone keeps a job on this host, inside an allocation as well") {
  World world;
  world.environment.insert(
      world.environment.end(),
      {{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}});
  CHECK(shown(job_of(world, {"./train"})) == "n1:2 n2:2 np 4");
  CHECK(shown(job_of(world, {"--standalone", "--nproc-per-node", "3", "./train"})) == "localhost:3 np 3");
}

TEST_CASE("what is wrong is said with its cause and a cure") {
  const std::pair<Words, std::string> rows[] = {
      {{}, "no program was named | write trainrun [flags] program [arguments], or see trainrun --help"},
      {{"-np", "2"},
       "no program was named | write trainrun [flags] program [arguments], or see trainrun --help"},
      {{"-np", "two", "./train"}, "-np: 'two' is not a whole number from 1 to 1000000 | write -np N"},
      {{"-np", "2", "./train", ":", "./train"},
       "part 2 ('./train') has no -np | with several programs each says its own: -np 1 ./server : -np 7 "
       "./client"},
      {{"-np", "1", "--grace", "5", "./train", ":", "-np", "1", "--grace", "3s", "./train"},
       "part 1 ('./train') says --grace 5, part 2 ('./train') says --grace 3s: a job has one answer | write "
       "--grace once"},
      {{"-np", "1", "-m", "a.b", ":", "-np", "1", "--timestamp", "./train", ":", "--timestamp=no", "./train"},
       "part 2 ('./train') says --timestamp, part 3 ('./train') says --timestamp=no: a job has one answer | "
       "write "
       "--timestamp once"},
      {{"--ppn", "2", "--map-by", "ppr:3:host", "./train"},
       "--ppn 2 and --map-by ppr:3:host disagree | keep one of them"},
      {{"--transport", "local", "-H", "gpu1", "./train"},
       "--transport local: 'gpu1' is not this host | --transport auto runs ranks of this host locally and of "
       "others by ssh"},
      {{"-np", "2", "--only-rank", "2", "./train"},
       "--only-rank: there is no rank 2; the job has ranks 0 to 1"},
      {{"-np", "1", "--stdin", "4", "./train"}, "--stdin: there is no rank 4; the job has rank 0 only"},
      {{"-np", "2", "--local-ranks-filter", "0,5", "./train"},
       "--local-ranks-filter: there is no local rank 5; the job has ranks 0 to 1"},
      {{"--hostfile", "nope", "./train"}, "--hostfile: /home/u/nope: No such file or directory"},
      {{"--hostfile", "hosts.txt", "-H", "gpu3", "./train"},
       "-H: host 'gpu3' is not among the hosts of hosts.txt | they are gpu1 and gpu2"},
      {{"--hostfile", "hosts.txt", "-H", "gpi1", "./train"},
       "-H: host 'gpi1' is not among the hosts of hosts.txt | did you mean gpu1?"},
      {{"--hostfile", "hosts.txt", "-H", "gpu1:3", "./train"},
       "-H asks for 3 slots on gpu1, and hosts.txt gives it 2"},
      {{"--hostfile", "hosts.txt", "-np", "5", "./train"},
       "-np 5 needs 5 slots, the hosts have 4: gpu1 2, gpu2 2 | write slots=3 for gpu1 in hosts.txt, or add "
       "--oversubscribe"},
      {{"-i", "/nokey", "-H", "a", "./train"},
       "-i: there is no key '/nokey' | ls ~/.ssh shows the keys that there are"},
      {{"--wdir", "/home/u/plain.txt", "./train"},
       "the working directory '/home/u/plain.txt' is no directory | --wdir DIR chooses another one"},
      {{"--timeout", "9999999h", "./train"},
       "--timeout: '9999999h' is not a time that can be waited for: it is longer than ten years"},
      {{"--timeout", "soon", "./train"},
       "--timeout: 'soon' is not a time above zero | write seconds, or 250ms, 90s, 5m, 2h, 1:30:00"},
      {{"--config", "nope.toml", "./train"}, "--config: /home/u/nope.toml: No such file or directory"},
      {{"--json", "./train"},
       "--json goes with --dry-run or --check-hosts | write trainrun --dry-run --json ..."},
      {{"--dry-run", "--check-hosts", "./train"},
       "--dry-run logs in nowhere, and --check-hosts everywhere | write one of them at a time"},
      {{""}, "the name of the program is empty | write trainrun [flags] program [arguments]"},
  };
  for (const auto& [words, expected] : rows) CHECK(error_of(words) == expected);
  CHECK(error_of({"-np", "9", "-H", "gpu1:2,gpu2:2", "./train"}).find("--oversubscribe") !=
        std::string::npos);
}

TEST_CASE("a user and a port of -H win over those of the host file, and are kept by --print-config") {
  World world;
  world.files["/home/u/hf"] = "a slots=2 user=bob port=22\nb slots=2\n";
  for (const Words& words :
       {Words{"-H", "ssh://eve@a:2222,carol@b"}, Words{"-H", "carol@b", "-H", "ssh://eve@a:2222"}}) {
    Words line = {"--hostfile", "hf", "--print-config", "./train"};
    line.insert(line.begin(), words.begin(), words.end());
    const auto printed = world.read(line);
    REQUIRE(printed.has_value());
    world.files["/home/u/p.toml"] = printed->text;
    std::erase(line, "--print-config");
    for (const Words& way : {line, Words{"--config", "p.toml"}}) {
      auto hosts = job_of(world, way).hosts.hosts;
      REQUIRE(hosts.size() == 2);
      if (hosts[0].name == "b") std::swap(hosts[0], hosts[1]);
      CHECK(hosts[0].user == "eve");
      CHECK(hosts[0].port == 2222);
      CHECK(hosts[0].slots == 2);
      CHECK(hosts[1].user == "carol");
    }
  }
}

TEST_CASE("without a PATH for the workers, a bare name is an error that says why") {
  World world;
  const auto bare = world.read({"--env", "none", "-np", "1", "env"});
  REQUIRE_FALSE(bare.has_value());
  CHECK(bare.error().code == Code::not_found);
  CHECK(bare.error().message == "program 'env' not found in PATH");
  CHECK(bare.error().hint == "--env none leaves no PATH: write the program with its path, or add -x PATH");
  CHECK(world.read({"--env", "none", "-np", "1", "/usr/bin/env"}).has_value());
  CHECK(world.read({"--env", "none", "-x", "PATH", "-np", "1", "env"}).has_value());
  world.environment.erase(world.environment.begin());
  CHECK(world.read({"-np", "1", "env"}).error().hint ==
        "PATH is not set: write the program with its path, or add -x PATH=...");
}

TEST_CASE("a key is looked for only where a host is reached by ssh") {
  CHECK(job_of({"-i", "/nokey", "-np", "1", "./train"}).ssh.identity == "/nokey");
  CHECK(job_of({"-i", "/nokey", "-H", "localhost:2", "./train"}).world_size() == 2);
}
