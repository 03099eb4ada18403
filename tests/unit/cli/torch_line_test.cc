// torchrun's command line with the first word changed, and its PET_ variables: the whole of torch 2.15's.
#include <doctest/doctest.h>

#include "cli/elastic.h"
#include "launcher/base/strings.h"
#include "launcher/core/worker_env.h"
#include "tests/unit/cli/world.h"

using namespace trainrun;
using namespace trainrun::cli;

namespace {

struct Line {
  std::string words;  // before the script
  std::string note;   // what is said; empty: nothing
};

Words words_of(const std::string& line) {
  Words out;
  for (const auto word : split(line, ' ')) {
    if (!word.empty()) out.emplace_back(word);
  }
  out.insert(out.end(), {"train.py", "--epochs", "3"});
  return out;
}

Words notes_of(World& world, const std::string& line) {
  const auto request = world.read(words_of(line));
  if (!request) MESSAGE(line, ": ", request.error().message);
  REQUIRE(request.has_value());
  return request->notes;
}

JobSpec torch_job(World& world, const std::string& line) { return job_of(world, words_of(line)); }
JobSpec torch_job(const std::string& line) {
  World world;
  return torch_job(world, line);
}

const std::string four = "--nproc-per-node 4 ";

}  // namespace

TEST_CASE("torchrun's options that work") {
  CHECK(torch_job("--nproc-per-node 4").programs[0].np == 4);
  CHECK(torch_job("--nproc_per_node=cpu").programs[0].np == 4);
  CHECK(torch_job("--nnodes 1 --nproc-per-node auto").programs[0].np == 4);
  CHECK(torch_job("--nnodes 1:1 --nproc_per_node 2").programs[0].np == 2);
  CHECK(torch_job(four + "--max-restarts 3").elastic.limit.count == 3);
  CHECK(torch_job(four + "--master_port 29511").master_port == 29511);
  CHECK(torch_job(four + "--role trainer").role == "trainer");
  CHECK(torch_job(four + "--log-dir logs").output_directory == "/home/u/logs");
  CHECK(torch_job(four + "--local-ranks-filter 0,1").only_local_ranks == std::vector<int>{0, 1});
  CHECK(torch_job(four + "--shutdown-timeout 30").grace == seconds(30));
  CHECK(torch_job(four + "--numa-binding node").bind_to == BindTo::numa);
  CHECK(torch_job(four + "--numa-binding=socket").bind_to == BindTo::socket);
  const auto job = torch_job(four + "--virtual-local-rank");
  CHECK(job.virtual_local_rank);
  CHECK(job.gpus_per_rank == 1);
  CHECK(torch_job("--virtual-local-rank --gpus-per-rank 2 -np 2").gpus_per_rank == 2);
  CHECK(torch_job("-np 1 -m").programs[0].argv == Words{"python3", "-m", "train.py", "--epochs", "3"});
}

TEST_CASE("streams that are redirected go to files only") {
  const auto shown = [](const std::vector<Redirect>& all) {
    std::string out;
    for (const auto& one : all)
      out += std::to_string(one.local_rank) + (one.out ? "o" : "") + (one.err ? "e" : "") + " ";
    return out;
  };
  CHECK(shown(torch_job(four + "--log-dir l -r 3").redirects) == "-1oe ");
  CHECK(shown(torch_job(four + "--log-dir l --redirects=0:1,11:2").redirects) == "0o 11e ");
  CHECK(torch_job(four + "-r 0").redirects.empty());
  CHECK(torch_job(four + "-r 3 -t 3").redirects.empty());  // what is teed is shown
  CHECK(shown(torch_job(four + "--log-dir l -r 0:1,1:2 -t 0:3").redirects) == "-1 0 1e ");
  CHECK(shown(torch_job(four + "--log-dir l -r 3 -t 1:1").redirects) == "-1oe 1e ");
  CHECK(shown(torch_job(four + "--log-dir l -r 1 -t 2").redirects) == "-1o ");
  World teed;
  teed.environment.insert(teed.environment.end(), {{"PET_REDIRECTS", "3"}, {"PET_TEE", "3"}});
  CHECK(job_of(teed, {"-np", "2", "./train"}).redirects.empty());
  CHECK(torch_job(four + "-r 0:0").redirects.empty());
  World world;
  CHECK(notes_of(world, four + "-r 1") ==
        Words{"-r: what is not shown goes to /tmp/trainrun-0123456789abcdef"});
  world.environment.emplace_back("TMPDIR", "/scratch");
  CHECK(torch_job(world, four + "-r 1").output_directory ==
        "/tmp/trainrun-0123456789abcdef");  // it is not there
  world.directories.insert("/scratch");
  CHECK(torch_job(world, four + "-r 1").output_directory == "/scratch/trainrun-0123456789abcdef");
  for (const char* bad : {"4", "", "0:", ":1", "0:1,0:2", "0:1,", "x", "0:4", "-1:1", "99999:1", "33"}) {
    CAPTURE(bad);
    CHECK(error_of(world, {"-np", "1", "--redirects=" + std::string(bad), "./train"}) != "no error");
  }
}

TEST_CASE("torchrun's options without effect are accepted, and a line says why") {
  const std::string meets = " no effect: trainrun does the rendezvous itself";
  const std::string kept =
      " no effect: output is always shown; --output-filename DIR, or --log-dir DIR, keeps it in files as "
      "well";
  const Line lines[] = {
      {"--rdzv-backend c10d --rdzv-endpoint a:29400", "--rdzv-backend and --rdzv-endpoint have" + meets},
      {"--standalone", "--standalone has" + meets},
      {"--rdzv-conf join_timeout=9",
       "--rdzv-conf has" + meets + "; --start-timeout says how long hosts have"},
      {"--monitor-interval 0.1", "--monitor-interval has no effect: the end of a rank is seen at once"},
      {"--start-method spawn", "--start-method has no effect: ranks are programs of their own"},
      {"--event-log-handler null",
       "--event-log-handler has no effect: --events FILE has what happens to the job"},
      {"--no-python", "--no-python has no effect: a program is run as it is, and only a *.py by python3"},
      {"--run-path", "--run-path has no effect: a script is run by python3"},
      {"--tee 3", "--tee has" + kept},
      {"-t 0:1,1:2", "-t has" + kept},
      {"--node-rank 0", "--node-rank has no effect: one trainrun starts all hosts"},
      {"--master-addr 10.0.0.1", "--master-addr has no effect: ranks are told the address of rank 0's host"},
      {"--local-addr 10.0.0.1",
       "--local-addr has no effect: trainrun finds it; --network-interface chooses the network"},
      {"--signals-to-handle SIGTERM,SIGUSR1",
       "--signals-to-handle has no effect: TERM, INT, HUP and QUIT end the job, and USR1, USR2, TSTP and "
       "CONT reach the ranks"},
  };
  for (const auto& [words, note] : lines) {
    World world;
    CHECK(notes_of(world, four + words) == Words{note});
  }
}

TEST_CASE("torchrun's options that are not supported say what to write instead") {
  const std::pair<const char*, const char*> lines[] = {
      {"--node-rank 1", "one trainrun starts all hosts"},
      {"--numa-binding exclusive", "--cpus-per-rank N"},
      {"--numa-binding core-complex", "--bind-to numa"},
      {"--logs-specs mine", "--output-filename DIR"},
      {"--log-line-prefix-template ${rank}", "--tag rank"},
      {"--print-completion bash", "trainrun completion bash"},
      {"--event-log-handler console", "--events FILE"},
      {"--duplicate-stdout-filters loss", "grep PATTERN"},
      {"--duplicate-stderr-filters loss", "grep PATTERN"},
      {"-t 10:00", "--timeout TIME"},
      {"--tee 7", "write 3 for all streams"},
      {"--nproc-per-node xpu", "gpu, cpu"},
  };
  for (const auto& [words, advice] : lines) {
    CAPTURE(words);
    World world;
    CHECK(error_of(world, words_of(four + words)).find(advice) != std::string::npos);
  }
}

TEST_CASE("called as torchrun one rank a host is started unless a number is given") {
  World world;
  world.called_as = "torchrun";
  CHECK(torch_job(world, "").programs[0].np == 1);
  CHECK(torch_job(world, "-H gpu1:8,gpu2:8").programs[0].np == 2);
  CHECK(torch_job(world, "--standalone --nproc-per-node=3").programs[0].np == 3);
  CHECK(torch_job(world, "-np 3").programs[0].np == 3);
  world.environment.emplace_back("PET_NPROC_PER_NODE", "2");
  CHECK(torch_job(world, "").programs[0].np == 2);
}

TEST_CASE("called as torchrun the help says whose it is first") {
  World world;
  const auto help = [&world](const std::vector<std::string>& words) {
    const auto request = world.read(words);
    REQUIRE(request);
    return request->text;
  };
  const auto ours = help({"--help"}), all = help({"--help", "all"});
  CHECK(ours.starts_with("usage: trainrun "));
  world.called_as = "torchrun";
  const std::string head =
      "This torchrun is trainrun. torchrun's options that work: man trainrun-pytorch\n\n";
  CHECK(help({"--help"}) == head + ours);
  CHECK(help({"--help", "all"}) == head + all);
}

TEST_CASE("torchrun's variables are the weakest settings but the defaults") {
  World world;
  world.environment.insert(world.environment.end(), {{"PET_NPROC_PER_NODE", "2"},
                                                     {"PET_NNODES", "1"},
                                                     {"PET_MAX_RESTARTS", "4"},
                                                     {"PET_NODE_RANK", "0"},
                                                     {"PET_MASTER_PORT", "23456"},
                                                     {"PET_RDZV_BACKEND", "c10d"},
                                                     {"PET_STANDALONE", "0"},
                                                     {"PET_HOST", "elsewhere"},
                                                     {"PET_NAME", "Rex"}});
  auto job = torch_job(world, "");
  CHECK(job.programs[0].np == 2);
  CHECK(job.elastic.limit.count == 4);
  CHECK(job.master_port == 23456);
  CHECK(job.hosts.hosts.size() == 1);
  CHECK(torch_job(world, "--nproc-per-node 3").programs[0].np == 3);
  const auto notes = notes_of(world, "");
  CHECK(std::find(notes.begin(), notes.end(),
                  "PET_RDZV_BACKEND has no effect: trainrun does the rendezvous itself") != notes.end());
  for (const auto& [name, advice] : {std::pair("PET_LOG_LINE_PREFIX_TEMPLATE", "--tag rank"),
                                     std::pair("PET_SHUTDOWN_TIMEOUT", "0.0.1")}) {
    World other;
    other.environment.emplace_back(name, "0.0.1");
    CHECK(error_of(other, words_of("")).find(advice) != std::string::npos);
  }
  world.environment.emplace_back("PET_NODE_RANK", "1");
  CHECK(error_of(world, words_of("")).starts_with("PET_NODE_RANK='1' is not supported | one trainrun"));
}

TEST_CASE("torchrun's --nnodes=1:2 without hosts is this host alone") {
  World world;
  CHECK(notes_of(world, "--nnodes=1:2 --nproc-per-node 2").front() ==
        "--nnodes 1:2: this host alone (-H a,b,... names others)");
  const auto job = torch_job(world, "--nnodes=1:4 --nproc-per-node 2 --max-restarts 3");
  CHECK(job.elastic.min_np == 2);
  CHECK(job.elastic.max_np == 2);
}

TEST_CASE("--rdzv-id is the TORCHELASTIC_RUN_ID of the ranks, by which scripts name their checkpoints") {
  const auto run_id = [](World world, const std::string& line) {
    const auto job = torch_job(world, line);
    const auto placed = first_world(job);
    REQUIRE(placed.has_value());
    for (const auto& [name, value] : core::worker_env(job, *placed, Rank{1}, {}, nullptr))
      if (name == "TORCHELASTIC_RUN_ID") return value;
    return std::string("none");
  };
  World world;
  CHECK(run_id(world, four) == "0123456789abcdef");
  CHECK(run_id(world, four + "--rdzv-id run-7.a_b") == "run-7.a_b");
  CHECK(run_id(world, four + "--rdzv_backend c10d --rdzv_id=7") == "7");
  CHECK(notes_of(world, four + "--rdzv-id 7").empty());
  for (const auto& bad : {std::string("a/b"), std::string("a b"), std::string("a\nb"), std::string(256, 'a')})
    CHECK(error_of(world, {"-np", "1", "--rdzv-id=" + bad, "./train"}).find("--rdzv-id: ") == 0);
  world.environment.emplace_back("PET_RDZV_ID", "of-the-night");
  CHECK(run_id(world, four) == "of-the-night");
  CHECK(run_id(world, four + "--rdzv-id 7") == "7");
}

TEST_CASE("called as torchrun PYTHON_EXEC is the interpreter, unless there is to be none") {
  World world = called("torchrun", {{"PYTHON_EXEC", "/venv/bin/python"}});
  world.executables.insert("/venv/bin/python");
  const auto words = [&world](Words line) { return job_of(world, std::move(line)).programs[0].argv; };
  CHECK(words({"train.py", "--lr"}) == Words{"/venv/bin/python", "train.py", "--lr"});
  CHECK(words({"./run.py"}) == Words{"/venv/bin/python", "./run.py"});  // executable, and yet python's
  CHECK(words({"-m", "pkg.train", "7"}) == Words{"/venv/bin/python", "-m", "pkg.train", "7"});
  CHECK(words({"--no-python", "train.py"}) == Words{"python3", "train.py"});
  CHECK(words({"./train"}) == Words{"./train"});
  const auto notes = world.read({"-v", "train.py"})->notes;
  CHECK(std::find(notes.begin(), notes.end(),
                  "'train.py': running it with /venv/bin/python, as PYTHON_EXEC says") != notes.end());
  world.environment.emplace_back("PET_NO_PYTHON", "1");
  CHECK(words({"train.py"}) == Words{"python3", "train.py"});
  World missing = called("torchrun", {{"PYTHON_EXEC", "/venv/bin/python"}});
  const auto error = missing.read({"train.py"});
  REQUIRE_FALSE(error.has_value());
  CHECK(error.error().message == "program '/venv/bin/python' not found: it does not exist");
  CHECK(error.error().hint == "PYTHON_EXEC names it");
  World ours;
  ours.environment.emplace_back("PYTHON_EXEC", "/venv/bin/python");
  CHECK(job_of(ours, {"-np", "1", "train.py"}).programs[0].argv == Words{"python3", "train.py"});
}

TEST_CASE("where --nnodes MIN:MAX makes the job elastic a failure restarts nothing that was not asked for") {
  const std::string range = "-H a,b,c --nnodes 1:3 --nproc-per-node 1 ";
  World world;
  const auto limit = [&world](const std::string& line) { return torch_job(world, line).elastic.limit; };
  CHECK(limit(range).count == 0);
  CHECK(limit(range + "--max-restarts 3").count == 3);
  CHECK(limit(range + "--reset-limit 4").count == 4);
  CHECK(limit("-H a,b --min-np 1 --max-np 2 -np 2").count == 10);
  const auto counts_once = torch_job(world, "-H a,b,c --nnodes 2 --nproc-per-node 1");
  CHECK_FALSE(counts_once.elastic.enabled());
  auto shown = world.read(words_of(range + "--print-config"));
  REQUIRE(shown.has_value());
  CHECK(shown->text.find("max_restarts = 0") != std::string::npos);
  CHECK(shown->text.find("# as torchrun does") != std::string::npos);
  World torchrun = called("torchrun", {{"PET_NNODES", "1:3"}, {"PET_NPROC_PER_NODE", "1"}});
  CHECK(torch_job(torchrun, "-H a,b,c").elastic.limit.count == 0);
  CHECK_FALSE(torch_job(torchrun, "-H a,b,c -np 3").elastic.enabled());  // --nnodes has no say
  torchrun.environment.emplace_back("PET_MAX_RESTARTS", "5");
  CHECK(torch_job(torchrun, "-H a,b,c").elastic.limit.count == 5);
}
