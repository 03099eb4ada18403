#include <doctest/doctest.h>

#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

TEST_CASE("the program of a file runs, and one on the command line replaces it") {
  World world;
  world.files["/home/u/j.toml"] = "np = 2\ncommand = [\"./train\", \":\", \"--lr\"]\n";
  CHECK(job_of(world, {"--config", "j.toml"}).programs[0].argv == Words{"./train", ":", "--lr"});
  CHECK(job_of(world, {"--config", "j.toml", "./client"}).programs[0].argv == Words{"./client"});
  world.files["/home/u/j.toml"] =
      "[[program]]\nnp = 1\ncommand = [\"./server\"]\n[[program]]\nnp = 3\ncommand = [\"./client\"]\nwdir = "
      "\"/home/u\"\nenv = { A = \"1\" }\n";
  const auto job = job_of(world, {"--config", "j.toml"});
  REQUIRE(job.programs.size() == 2);
  CHECK(job.world_size() == 4);
  CHECK(job.programs[1].env == std::vector<EnvVar>{{"A", "1"}});
  CHECK(error_of(world, {"--config", "j.toml", "-np", "8"}) ==
        "-np: the file names 2 programs, each with its own np");
}

TEST_CASE("the parts of a line with colons have their own ranks, variables and directories") {
  const auto job = job_of(
      {"-np", "1", "-x", "A=1", "./server", "s", ":", "-np", "2", "--wdir", "/", "-x", "A=2", "/bin/true"});
  REQUIRE(job.programs.size() == 2);
  CHECK(job.programs[0].argv == Words{"./server", "s"});
  CHECK(job.programs[0].np == 1);
  CHECK(job.programs[0].env == std::vector<EnvVar>{{"A", "1"}});
  CHECK(job.programs[1].np == 2);
  CHECK(job.programs[1].directory == "/");
  CHECK(job.programs[1].env == std::vector<EnvVar>{{"A", "2"}});
}

TEST_CASE("actions other than a run") {
  World world;
  CHECK(world.read({"--help"})->action == Action::help);
  CHECK(world.read({"--help", "all"})->text.find("--agent-dir") != std::string::npos);
  CHECK(world.read({"--np", "junk", "--version"})->action == Action::version);
  CHECK(world.read({"--dry-run", "./train"})->action == Action::dry_run);
  CHECK(world.read({"--dry-run", "--json", "./train"})->json);
  CHECK(world.read({"--check-hosts", "-H", "a"})->action == Action::check_hosts);
  CHECK(world.read({"ctl", "--job", "0a", "world"})->rest == Words{"--job", "0a", "world"});
  CHECK(world.read({"ctl"})->action == Action::ctl);
  CHECK(world.read({"help"})->text == world.read({"--help"})->text);
  CHECK(world.read({"help", "all"})->text == world.read({"--help", "all"})->text);
  CHECK(world.read({"completion", "bash"})->action == Action::completion);
  const auto rendezvous = world.read({"rendezvous", "--port", "3"});
  CHECK(rendezvous->action == Action::rendezvous);
  CHECK(rendezvous->rest == Words{"--port", "3"});
  CHECK(world.read({"agent", "--x"})->action == Action::agent);
  world.executables.insert("/usr/bin/agent");
  CHECK(world.read({"-np", "1", "agent"})->action == Action::run);
  CHECK(world.read({"--", "agent"})->action == Action::run);
}

TEST_CASE("called by the name of another launcher, --version says whose programs are started") {
  World world;
  CHECK(world.read({"--version"})->text.find("MPI") == std::string::npos);
  for (const auto* name : {"mpirun", "mpiexec", "mpiexec.hydra"}) {
    world.called_as = name;
    const auto text = world.read({"--version"})->text;
    CHECK(text.starts_with("trainrun "));
    CHECK(text.find(std::string("\ncalled as ") + name + ": ") != std::string::npos);
    CHECK(text.find("MPICH") != std::string::npos);
    CHECK((text.find("Open MPI") != std::string::npos) == (std::string_view(name) == "mpirun"));
  }
}

TEST_CASE("an MPI program that looks for a launcher of its own is told what to do") {
  World world;
  CHECK(error_of(world, {"-pmi_args", "35149", "default_interface", "default_key", "15170"})
            .find("trainrun -np 1") != std::string::npos);
}

TEST_CASE("events and the journal are files of their own") {
  World world;
  CHECK(error_of(world, {"-np", "1", "--events", "x", "--journal", "x", "./train"}) ==
        "--events and --journal both name 'x' | each needs a file of its own");
}

TEST_CASE("--print-config is a file that gives the same job again") {
  World world;
  world.environment.emplace_back("TRAINRUN_GRACE", "5s");
  world.files["/home/u/j.toml"] = "hosts = [\"gpu1:2\"]\n[io]\ntag = \"host\"\n";
  const auto printed = world.read(
      {"--print-config", "--config", "j.toml", "-np", "2", "-x", "A=\"q\"", "-x", "HOME", "./train", "a\\b"});
  REQUIRE(printed.has_value());
  CHECK(printed->action == Action::print_config);
  const std::string& text = printed->text;
  const auto has = [&](std::string_view line) { return text.find(line) != std::string::npos; };
  CHECK(has("np = 2                                            # -np\n"));
  CHECK(has("hosts = [\"gpu1:2\"]                                # j.toml:1:9\n"));
  CHECK(has("grace = \"5s\"                                      # TRAINRUN_GRACE\n"));
  CHECK(has("tag = \"host\"                                      # j.toml:3:7\n"));
  CHECK(has("command = [\"./train\", \"a\\\\b\"] "));
  CHECK(has("  # command line\n"));
  CHECK(has("# host_timeout: 10s                               # default\n"));
  CHECK(world.read({"--print-config", "-np", "1", "-x", "API_KEY=abc"})->text.find("abc") ==
        std::string::npos);
  World again;
  again.files["/home/u/p.toml"] = text;
  const auto job = job_of(again, {"--config", "p.toml"});
  CHECK(job.programs[0].argv == Words{"./train", "a\\b"});
  CHECK(job.grace == seconds(5));
  CHECK(job.tag == Tag::host);
  CHECK(shown(job) == "gpu1:2 np 2");
}

TEST_CASE("--print-config of words that no TOML file can hold is an error, not a file that cannot be read") {
  World world;
  const auto request = world.read({"--print-config", "./train", "caf\xe9"});
  REQUIRE_FALSE(request.has_value());
  CHECK(request.error().message.find("not UTF-8") != std::string::npos);
  CHECK(world.read({"--print-config", "./train", "caf\xc3\xa9"}).has_value());
  CHECK(world.read({"./train", "caf\xe9"}).has_value());
}

TEST_CASE("--print-config of an elastic job says what was resolved and by which flag") {
  World world;
  world.files["/home/u/j.toml"] = "[elastic]\nmin_np = 2\nblacklist_cooldown_range = [5, 50]\n";
  const auto printed = world.read(
      {"--print-config", "--config", "j.toml", "-np", "4", "--reset-limit", "3/10m", "-H", "a:4", "./train"});
  REQUIRE(printed.has_value());
  const std::string& text = printed->text;
  const auto has = [&](std::string_view line) { return text.find(line) != std::string::npos; };
  CHECK(has("\n[elastic]\n"));
  CHECK(has("min_np = 2                                        # j.toml:2:10\n"));
  CHECK(has("max_np = 4                                        # -np\n"));
  CHECK(has("on_failure = \"auto\"                               # j.toml:2:10\n"));
  CHECK(has("reset_limit = \"3/10m\"                             # --reset-limit\n"));
  CHECK(has("blacklist_cooldown_range = \"5 50\"                 # j.toml:3:28\n"));
  CHECK(has("# settle: 2s                                      # default\n"));
  world.files["/home/u/p.toml"] = text;
  const auto job = job_of(world, {"--config", "p.toml"});
  CHECK(job.elastic.min_np == 2);
  CHECK(job.elastic.max_np == 4);
  CHECK(job.elastic.limit.count == 3);
  CHECK(job.elastic.cooldown_max == seconds(50));
  CHECK(shown(job) == "a:4 np 4");

  const auto plain = world.read({"--print-config", "-np", "2", "./train"});
  CHECK(plain->text.find("# on_failure: abort; auto when") != std::string::npos);
  CHECK(plain->text.find("\nmin_np") == std::string::npos);
}

TEST_CASE("--print-config of a job with a discovery, or with torchrun's hosts, gives the same job again") {
  World world;
  for (const Words& words :
       {Words{"--discover", "file:pool", "--min-np", "2", "--max-np", "8"},
        Words{"-H", "a,b,c", "--nnodes", "2:4", "--nproc-per-node", "8"},
        Words{"--nnodes", "1", "--nproc-per-node", "2"}, Words{"--spares", "1", "-np", "2"},
        Words{"-H", "a:2", "--min-np", "1", "-np", "4", "--max-restarts", "3"}}) {
    CAPTURE(words);
    Words line = words;
    line.insert(line.begin(), "--print-config");
    line.emplace_back("./train");
    const auto printed = world.read(line);
    REQUIRE(printed.has_value());
    World again;
    again.files["/home/u/p.toml"] = printed->text;
    line.erase(line.begin());
    const auto first = job_of(world, line), second = job_of(again, {"--config", "p.toml"});
    CHECK(shown(second) == shown(first));
    CHECK(second.elastic.on_failure == first.elastic.on_failure);
    CHECK(second.elastic.min_np == first.elastic.min_np);
    CHECK(second.elastic.max_np == first.elastic.max_np);
    CHECK(second.elastic.spares == first.elastic.spares);
    CHECK(second.elastic.limit.window == first.elastic.limit.window);
    CHECK(second.elastic.discovery.source == first.elastic.discovery.source);
  }
}

TEST_CASE("--print-config keeps a host's own port and key") {
  World world;
  world.files["/home/u/rented.txt"] = "gpu1 slots=2 port=2222 user=bob identity=/k\ngpu2 slots=4\n";
  const auto printed = world.read({"--print-config", "--hostfile", "rented.txt", "-np", "3", "./train"});
  REQUIRE(printed.has_value());
  CHECK(printed->text.find("#   gpu1: 2 slots, port 2222, key '/k'\n") != std::string::npos);
  const auto url = world.read({"--print-config", "-H", "ssh://bob@gpu1:2222", "./train"});
  REQUIRE(url.has_value());
  World again = world;
  again.files["/home/u/p.toml"] = printed->text;
  again.files["/home/u/q.toml"] = url->text;
  const auto job = job_of(again, {"--config", "p.toml"});
  CHECK(shown(job) == "gpu1:2 gpu2:4 np 3");
  CHECK(job.hosts.hosts[0].port == 2222);
  CHECK(job.hosts.hosts[0].identity == "/k");
  CHECK(job.hosts.hosts[0].user == "bob");
  CHECK(job_of(again, {"--config", "q.toml"}).hosts.hosts[0].port == 2222);
}

TEST_CASE("--print-config keeps the variables of each program") {
  World world;
  world.environment.emplace_back("KEPT", "from here");
  const auto same = [&](const Words& words) {
    Words line = words;
    line.insert(line.begin(), "--print-config");
    const auto printed = world.read(line);
    REQUIRE(printed.has_value());
    CHECK(printed->text.find("from here") == std::string::npos);
    CHECK(printed->text.find("hunter2") == std::string::npos);
    world.files["/home/u/p.toml"] = printed->text;
    const auto first = job_of(world, words), second = job_of(world, {"--config", "p.toml"});
    CHECK(first.env == second.env);
    REQUIRE(first.programs.size() == second.programs.size());
    for (std::size_t i = 0; i < first.programs.size(); ++i) {
      CHECK(first.programs[i].env == second.programs[i].env);
      CHECK(first.programs[i].np == second.programs[i].np);
      CHECK(first.programs[i].directory == second.programs[i].directory);
    }
    return first;
  };
  const auto job =
      same({"-x", "G=1", "-x", "KEPT", "-n", "1", "./server", ":", "-n", "1", "-x", "H=2", "./client"});
  CHECK(job.programs[0].env == std::vector<EnvVar>{{"G", "1"}, {"KEPT", "from here"}});
  CHECK(job.programs[1].env == std::vector<EnvVar>{{"H", "2"}});
  world.files["/home/u/j.toml"] =
      "[[program]]\nnp = 2\nwdir = \"/\"\ncommand = [\"/bin/true\"]\nenv = { H = \"2\" }\nforward = "
      "[\"KEPT\"]\n";
  CHECK(same({"--config", "j.toml"}).programs[0].env ==
        std::vector<EnvVar>{{"H", "2"}, {"KEPT", "from here"}});
  const auto secret = world.read(
      {"--print-config", "-x", "API_KEY=hunter2", "-n", "1", "./server", ":", "-n", "1", "./client"});
  CHECK(secret->text.find("# env.API_KEY: redacted  # -x\n") != std::string::npos);
  const auto masked = world.read({"--print-config", "-np", "1", "./train", "--api-key", "hunter2"});
  REQUIRE(masked);
  CHECK(masked->text.find("hunter2") == std::string::npos);
  CHECK(masked->text.find("\"--api-key\", \"<redacted>\"]") != std::string::npos);
  world.files["/home/u/masked.toml"] = masked->text;
  CHECK(error_of(world, {"--config", "masked.toml"}).find("write the credential instead of <redacted>") !=
        std::string::npos);
  CHECK(secret->text.find("hunter2") == std::string::npos);
  const auto discovery = world.read(
      {"--print-config", "-np", "1", "--host-discovery-script", "/bin/true --token hunter2", "./train"});
  REQUIRE_MESSAGE(discovery, (discovery ? "" : discovery.error().message));
  CHECK(discovery->text.find("hunter2") == std::string::npos);
  world.files["/home/u/masked.toml"] = discovery->text;
  CHECK(error_of(world, {"--config", "masked.toml"}).find("write the credential instead of <redacted>") !=
        std::string::npos);
  const auto token = world.read({"--print-config", "-x", "HUB=AKIAIOSFODNN7EXAMPLE", "-np", "1", "./train"});
  CHECK(token->text.find("# HUB: redacted  # -x\n") != std::string::npos);
  CHECK(token->text.find("EXAMPLE") == std::string::npos);
}

TEST_CASE("programs without words are no trouble where none is needed") {
  World world;
  world.files["/home/u/j.toml"] = "[[program]]\nnp = 2\nenv = { H = \"2\" }\n";
  const auto printed = world.read({"--print-config", "--config", "j.toml"});
  REQUIRE(printed.has_value());
  CHECK(printed->text.find("\n[[program]]\nnp = 2\nenv.H = ") != std::string::npos);
  world.files["/home/u/j.toml"] = "[[program]]\nwdir = \"/\"\n[[program]]\nwdir = \"/\"\n";
  CHECK(error_of(world, {"--print-config", "--config", "j.toml"})
            .starts_with("part 1 (no program) has no -np"));
}

TEST_CASE("two answers of a file to how many ranks are an error") {
  World world;
  const std::string one = "[[program]]\nnp = 1\ncommand = [\"./server\"]\n";
  const std::string expected =
      "j.toml:1:6: np = 4 for the whole job, and np = 1 for a program at j.toml:3:6 | drop the first: each "
      "[[program]] has its own np";
  for (const auto& programs : {one, one + one}) {
    world.files["/home/u/j.toml"] = "np = 4\n" + programs;
    CHECK(error_of(world, {"--config", "j.toml"}) == expected);
    world.files["/home/u/j.toml"] = programs;
    CHECK(world.read({"--config", "j.toml"}).has_value());
  }
  world.environment.emplace_back("TRAINRUN_NP", "4");
  CHECK(error_of(world, {"--config", "j.toml"}) ==
        "TRAINRUN_NP: the file names 2 programs, each with its own np");
  CHECK(world.read({"-n", "1", "./server", ":", "-n", "1", "./client"}).has_value());
}

TEST_CASE("a variable that every rank has from us is not passed on, and a line says so") {
  World world;
  world.files["/home/u/j.toml"] = "[env]\nTRAINRUN_SIZE = \"9\"\nMINE = \"1\"\n";
  world.files["/home/u/e"] = "LOCAL_RANK=3\n";
  const auto request = world.read({"--config", "j.toml", "--env-file", "e", "-x", "RANK=7", "-x",
                                   "MASTER_PORT=1", "-n", "1", "/bin/true"});
  REQUIRE(request.has_value());
  CHECK(request->notes ==
        std::vector<std::string>{
            "e: LOCAL_RANK is not passed on: trainrun sets LOCAL_RANK itself",
            "j.toml:2:17: TRAINRUN_SIZE is not passed on: trainrun sets TRAINRUN_SIZE itself",
            "-x RANK=7 is not passed on: trainrun sets RANK itself"});
  std::string names;
  for (const auto& [name, value] : request->job.env) names += name + " ";
  CHECK(names == "HOME MASTER_PORT MINE PATH ");
  const auto parts = world.read({"-n", "1", "/bin/true", ":", "-n", "1", "-x", "RANK", "/bin/true"});
  CHECK(parts->notes == std::vector<std::string>{"-x RANK is not passed on: trainrun sets RANK itself"});
  CHECK(parts->job.programs[1].env.empty());
}
