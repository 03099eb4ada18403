#include "cli/argv.h"

#include <doctest/doctest.h>

#include "cli/parts.h"

using namespace trainrun;
using namespace trainrun::cli;

namespace {

using Words = std::vector<std::string>;

// "np=4 host=a:2 | ./train -x" for one part, parts joined by " / ".
std::string shown(const Result<std::vector<ArgvPart>>& parts) {
  if (!parts) return "error: " + parts.error().message;
  std::string out;
  for (const auto& part : *parts) {
    if (!out.empty()) out += " / ";
    for (const auto& setting : part.settings) {
      out += std::string(info(setting.option).name.substr(2)) + "=" + setting.value + " ";
    }
    out += "|";
    for (const auto& word : part.program) out += " " + word;
  }
  return out;
}

std::string split_line(const Words& words) { return shown(split_argv(words)); }

}  // namespace

TEST_CASE("ordinary lines of mpirun, horovodrun, torchrun and hydra are understood as typed") {
  const std::pair<Words, std::string> rows[] = {
      {{"-np", "16", "-H", "gpu1:8,gpu2:8", "./train"}, "np=16 host=gpu1:8,gpu2:8 | ./train"},
      {{"-n", "4", "./train"}, "np=4 | ./train"},
      {{"--np", "4", "./train"}, "np=4 | ./train"},
      {{"--num-proc", "4", "./train"}, "np=4 | ./train"},
      {{"--num_proc=4", "./train"}, "np=4 | ./train"},
      {{"-np=3", "./train"}, "np=3 | ./train"},
      {{"--blacklist-cooldown-range", "10", "300", "./t"}, "blacklist-cooldown-range=10 300 | ./t"},
      {{"--blacklist-cooldown-range=10,300", "./t"}, "blacklist-cooldown-range=10,300 | ./t"},
      {{"--blacklist-cooldown-range", "10 300", "./t"}, "blacklist-cooldown-range=10 300 | ./t"},
      {{"--nnodes=1:2", "--nproc_per_node=4", "--max_restarts=3", "t.py"},
       "nnodes=1:2 ppn=4 max-restarts=3 | t.py"},
      {{"-np", "2", "--min-np", "1", "--max-np", "4", "--slots", "2", "--host-discovery-script", "./d", "t"},
       "np=2 min-np=1 max-np=4 slots-per-host=2 host-discovery-script=./d | t"},
      {{"-n=3", "./train"}, "np=3 | ./train"},
      {{"-hostfile", "h", "./t"}, "hostfile=h | ./t"},
      {{"--hostfile", "h", "./t"}, "hostfile=h | ./t"},
      {{"--machinefile", "h", "./t"}, "hostfile=h | ./t"},
      {{"-machinefile", "h", "./t"}, "hostfile=h | ./t"},
      {{"-f", "h", "./t"}, "hostfile=h | ./t"},
      {{"-host", "a,b", "./t"}, "host=a,b | ./t"},
      {{"--hosts", "[fd00::1]:2", "./t"}, "host=[fd00::1]:2 | ./t"},
      {{"-ppn", "2", "./t"}, "ppn=2 | ./t"},
      {{"-npernode", "2", "./t"}, "ppn=2 | ./t"},
      {{"--nproc_per_node=8", "train.py"}, "ppn=8 | train.py"},
      {{"--nproc-per-node", "8", "train.py", "--lr", "1"}, "ppn=8 | train.py --lr 1"},
      {{"--map-by", "ppr:2:node", "./t"}, "map-by=ppr:2:node | ./t"},
      {{"-bind-to", "core", "./t"}, "bind-to=core | ./t"},
      {{"-wdir", "/tmp", "./t"}, "wdir=/tmp | ./t"},
      {{"-x", "PATH", "-x", "A=b=c", "./t"}, "export=PATH export=A=b=c | ./t"},
      {{"-x=A=b", "./t"}, "export=A=b | ./t"},
      {{"--oversubscribe", "-oversubscribe", "./t"}, "oversubscribe=true oversubscribe=true | ./t"},
      {{"-vv", "./t"}, "verbose=true verbose=true | ./t"},
      {{"-q", "./t"}, "quiet=true | ./t"},
      {{"-p", "2222", "-i", "key", "./t"}, "ssh-port=2222 ssh-identity-file=key | ./t"},
      {{"-m", "pkg.train", "-np", "3"}, "module=pkg.train | -np 3"},
      {{"-m", "-np", "2", "pkg.train", "-np", "3"}, "np=2 module=pkg.train | -np 3"},  // as torchrun's
      {{"--module", "-np", "2", "--", "pkg.train", "--"}, "np=2 module=pkg.train | --"},
      {{"-np", "2", "--", "-odd", "--np", "3"}, "np=2 | -odd --np 3"},
      {{"-np", "2", "./t", "--", "-np", "9"}, "np=2 | ./t -- -np 9"},
      {{"./t", "-np", "9", "--nonsense"}, "| ./t -np 9 --nonsense"},
      {{"-np", "1", "./s", "a", ":", "-np", "7", "./c", "b"}, "np=1 | ./s a / np=7 | ./c b"},
      {{"-np", "1", "-m", "s", ":", "-np", "7", "--", "./c"}, "np=1 module=s | / np=7 | ./c"},
      {{"--dry-run", "--json", "./t"}, "dry-run=true json=true | ./t"},
      {{"--help"}, "help= |"},
      {{"--help", "all"}, "help=all |"},
      {{"-h"}, "help= |"},
      {{"--version"}, "version=true |"},
      {{}, "|"},
      {{"--stdin", "none", "./t"}, "stdin=none | ./t"},
      {{"--config", "job.toml"}, "config=job.toml |"},
      {{"--tag=host", "./t", ""}, "tag=host | ./t "},
  };
  for (const auto& [words, expected] : rows) CHECK(split_line(words) == expected);
}

TEST_CASE("the commonest flags of other launchers are answered, in one line") {
  for (const std::string flag : {"--display-map",
                                 "--display-allocation",
                                 "-l",
                                 "--bynode",
                                 "--byslot",
                                 "--npersocket",
                                 "--mca",
                                 "-iface",
                                 "-genvlist",
                                 "--ntasks",
                                 "--logs-specs",
                                 "--app",
                                 "--am",
                                 "-D",
                                 "-w",
                                 "--nodelist",
                                 "-o",
                                 "--output",
                                 "-N",
                                 "--nodes",
                                 "--ntasks-per-node",
                                 "--cpus-per-task",
                                 "--gpus-per-task",
                                 "--gpus-per-node",
                                 "--gpus",
                                 "--mem",
                                 "--mem-per-cpu",
                                 "-A",
                                 "-C",
                                 "--input",
                                 "--error",
                                 "--duplicate-stdout-filters"}) {
    CAPTURE(flag);
    const auto parts = split_argv({flag, "./t"});
    REQUIRE_FALSE(parts.has_value());
    CHECK(parts.error().message == "unknown flag '" + flag + "'");
    CHECK(parts.error().hint.find("did you mean") == std::string::npos);
    CHECK(parts.error().hint.find("lists every option") == std::string::npos);
    CHECK(parts.error().hint.size() < 100);
    if (!flag.starts_with("--")) continue;
    const auto joined = split_argv({flag + "=8", "./t"});
    REQUIRE_FALSE(joined.has_value());
    CHECK(joined.error().hint == parts.error().hint);
  }
}

TEST_CASE("flags of other launchers that change nothing here are left out, and a line says why") {
  const auto parts = split_argv({"--standalone", "--rdzv-backend", "c10d", "--rdzv_endpoint=h:1", "-np", "2",
                                 "--no-python", "--node_rank=0", "--rdzv-id", "7", "./t", "--rdzv-id", "8"});
  CHECK(shown(parts) == "hosts-from=none np=2 rdzv-id=7 | ./t --rdzv-id 8");
  CHECK(notes_on_needless(*parts) ==
        std::vector<std::string>{
            "--standalone, --rdzv-backend and --rdzv_endpoint have no effect: trainrun does the rendezvous "
            "itself",
            "--no-python has no effect: a program is run as it is, and only a *.py by python3",
            "--node_rank has no effect: one trainrun starts all hosts"});
  const auto twice = split_argv({"--monitor-interval", "1", "./a", ":", "--monitor-interval", "1", "./b"});
  CHECK(notes_on_needless(*twice).size() == 1);
  CHECK(notes_on_needless(*split_argv({"--allow-run-as-root", "./a"})).empty());
  CHECK(shown(split_argv({"-K", "--kill-on-bad-exit=1", "-u", "-print-all-exitcodes", "./t"})) == "| ./t");
  CHECK(shown(split_argv({"--kill-on-bad-exit=0", "./t"}))
            .starts_with("error: --kill-on-bad-exit '0' is not supported"));
  CHECK(shown(split_argv({"-prepend-rank", "--tag-output", "--label", "--mpi=pmi2", "--launcher", "ssh",
                          "./t"})) == "tag=rank tag=rank tag=rank | ./t");
  CHECK(shown(split_argv({"--monitor-interval", "5", "--start-method=spawn", "--role", "t", "--use_env",
                          "--master_addr", "h", "--node-rank", "0", "./t"})) == "role=t | ./t");
  CHECK(shown(split_argv({"--rdzv-id", "-np", "2", "./t"})) ==
        "error: --rdzv-id needs a value, but the next word is '-np'");
  CHECK(shown(split_argv({"--node-rank", "1", "./t"})) == "error: --node-rank '1' is not supported");
}

TEST_CASE("values are what was typed: brackets, braces, dashes and blanks are no signs of ours") {
  for (const std::string value :
       {"[fd00::1]", "[a,b]", "[]", "{}", "%%", "a b", "-5", "--x", "++", "'q'", "true"}) {
    CAPTURE(value);
    CHECK(split_line({"--wdir", value, "./t"}) == "wdir=" + value + " | ./t");
    CHECK(split_line({"--wdir=" + value, "./t"}) == "wdir=" + value + " | ./t");
    CHECK(split_line({"--timestamp=" + value, "./t"}) == "timestamp=" + value + " | ./t");
  }
  CHECK(split_line({"-x", "A=[1,2]", "--export=B=[3]", "-x", "C={}", "./t"}) ==
        "export=A=[1,2] export=B=[3] export=C={} | ./t");
  CHECK(split_line({"--timestamp=", "./t"}) == "error: --timestamp needs a value, but it is empty");
}

TEST_CASE("what is no flag of ours before the program is an error that helps") {
  const std::tuple<Words, std::string, std::string> rows[] = {
      {{"--npp", "3", "./t"}, "unknown flag '--npp'", "did you mean --np?"},
      {{"--hostfil", "h", "./t"}, "unknown flag '--hostfil'", "did you mean --hostfile?"},
      {{"--oversubscibe", "./t"}, "unknown flag '--oversubscibe'", "did you mean --oversubscribe?"},
      {{"--timout=3", "./t"}, "unknown flag '--timout'", "did you mean --timeout?"},
      {{"-np3", "./t"}, "unknown flag '-np3'", "write -np 3"},
      {{"-n4", "./t"}, "unknown flag '-n4'", "write -n 4"},
      {{"-p2222", "./t"}, "unknown flag '-p2222'", "write -p 2222"},
      {{"-N", "4", "./t"},
       "unknown flag '-N'",
       "write --ppn N for mpirun's -N; leave srun's out, or write -np 4 --ppn 2 for two hosts"},
      {{"-N1", "./t"},
       "unknown flag '-N1'",
       "write --ppn N for mpirun's -N; leave srun's out, or write -np 4 --ppn 2 for two hosts"},
      {{"--standalone=1", "./t"},
       "unknown flag '--standalone'",
       "trainrun --help all lists every option; if it is the program's own, put it after the program"},
      {{"-F", "h", "./t"}, "unknown flag '-F'", "did you mean -f?"},
      {{"--x", "A=1", "./t"}, "unknown flag '--x'", "did you mean -x?"},
      {{"-y", "./t"},
       "unknown flag '-y'",
       "trainrun --help all lists every option; if it is the program's own, put it after the program"},
      {{"--node-rank", "2", "./t"},
       "--node-rank '2' is not supported",
       "one trainrun starts all hosts: name them with -H or --hostfile"},
      {{"--blacklist-cooldown-range", "10"},
       "--blacklist-cooldown-range needs a value more",
       "write --blacklist-cooldown-range MIN MAX"},
      {{"--blacklist-cooldown-range", "10", "-np", "2"},
       "--blacklist-cooldown-range needs a value more",
       "write --blacklist-cooldown-range MIN MAX"},
      {{"--npersocket", "2", "./t"}, "unknown flag '--npersocket'", "write --map-by ppr:N:socket"},
      {{"-l", "./t"}, "unknown flag '-l'", "write --tag rank"},
      {{"--launcher", "slurm", "./t"},
       "--launcher 'slurm' is not supported",
       "write --transport ssh, openssh or local; hosts of Slurm are reached by ssh too"},
      {{"-D", "/tmp", "./t"}, "unknown flag '-D'", "write --wdir DIR"},
      {{"-K1", "./t"}, "unknown flag '-K1'", "leave it out: a rank that fails ends the job"},
      {{"--kill-on-bad-exit=0", "./t"},
       "--kill-on-bad-exit '0' is not supported",
       "leave it out, or write --on-failure ignore for what 0 means"},
      {{"-np"}, "-np needs a value", "write -np N"},
      {{"-m", "-np", "2"}, "-m needs a value", "write -m MODULE"},
      {{"-np", "-H", "a", "./t"}, "-np needs a value, but the next word is '-H'", "write -np N"},
      {{"--np=", "./t"}, "--np needs a value, but it is empty", "write --np N"},
      {{"-np", "sh", "-c", "echo"}, "-np: 'sh' is not a whole number from 1 to 1000000", "write -np N"},
      {{"-np", "2", "-c", "echo"}, "unknown flag '-c'", "write -np N, or --cpus-per-rank N"},
      {{"-np", "sh", "-q", "-c"}, "unknown flag '-c'", "write -np N, or --cpus-per-rank N"},
      {{"-H", "", "./t"}, "-H needs a value, but it is empty", "write -H HOST[:SLOTS],..."},
      {{"--grace", "--", "./t"}, "--grace needs a value, but the next word is '--'", "write --grace TIME"},
  };
  for (const auto& [words, message, hint] : rows) {
    const auto parts = split_argv(words);
    REQUIRE_FALSE(parts.has_value());
    CHECK(parts.error().message == message);
    CHECK(parts.error().hint == hint);
    CHECK(parts.error().code == Code::usage);
  }
}

TEST_CASE("all unknown flags are told at once") {
  const std::tuple<Words, std::string, std::string> rows[] = {
      {{"--npp", "3", "--logs-specs=x", "./t"},
       "unknown flags '--npp' and '--logs-specs'",
       "'--npp': did you mean --np?; '--logs-specs': write --output-filename DIR: DIR/latest/rank.N/stdout "
       "and stderr"},
      {{"-l", "-np", "2", "--wdr", "x", "-l", "./t", "--lr", "1"},
       "unknown flags '-l' and '--wdr'",
       "'-l': write --tag rank; '--wdr': did you mean --wdir?"},
      {{"--odd", "--npp", "2", "--strange=1", "./t"},
       "unknown flags '--odd', '--npp' and '--strange'",
       "'--odd' and '--strange': trainrun --help all lists every option; if it is the program's own, put it "
       "after the "
       "program; '--npp': did you mean --np?"},
      // the program's own flags are not ours to judge, also where nobody can tell where it begins
      {{"--npp", "./t", "--lr", "1"}, "unknown flag '--npp'", "did you mean --np?"},
      {{"--npp", "3", "t", "--lr", "1"}, "unknown flag '--npp'", "did you mean --np?"},
      {{"--quit", "t", "--lr", "1"}, "unknown flag '--quit'", "did you mean --quiet?"},
      {{"--npp", "python3.12", "--lr", "1"}, "unknown flag '--npp'", "did you mean --np?"},
      {{"--npp", "--", "--lr", "1"}, "unknown flag '--npp'", "did you mean --np?"},
      // what else is wrong is told when these are corrected
      {{"--npp", "3", "--grace"}, "unknown flag '--npp'", "did you mean --np?"},
      {{"-l", "-l", "./t"}, "unknown flag '-l'", "write --tag rank"},
  };
  for (const auto& [words, message, hint] : rows) {
    const auto parts = split_argv(words);
    REQUIRE_FALSE(parts.has_value());
    CHECK(parts.error().message == message);
    CHECK(parts.error().hint == hint);
  }
  Words many;
  for (int i = 0; i < 1000; ++i) many.push_back("--odd-" + std::to_string(i));
  const auto parts = split_argv(many);
  REQUIRE_FALSE(parts.has_value());
  CHECK(parts.error().message.size() < 400);
  CHECK(parts.error().hint.size() < 1000);
}

TEST_CASE("a lone colon needs a program on both sides") {
  for (const Words& words : {Words{":", "./a"}, Words{"-np", "2", ":", "./a"}, Words{"./a", ":"},
                             Words{"./a", ":", ":", "./b"}, Words{"--", ":"}, Words{"-np", ":"}}) {
    CHECK_FALSE(split_argv(words).has_value());
  }
}

TEST_CASE("the origin of a setting is the flag as it was typed") {
  const auto parts = split_argv({"-np", "2", "--num_proc=3", "-vv", "./t"});
  REQUIRE(parts.has_value());
  const auto& settings = parts->front().settings;
  REQUIRE(settings.size() == 4);
  CHECK(settings[0].origin == "-np");
  CHECK(settings[1].origin == "--num_proc");
  CHECK(settings[2].origin == "-v");
}

TEST_CASE("words that no shell would give are refused and words of the program are not looked at") {
  CHECK_FALSE(split_argv({std::string("a\0b", 3)}).has_value());
  CHECK_FALSE(split_argv({"-H", std::string(1024 * 1024, 'a'), "./t"}).has_value());
  CHECK_FALSE(split_argv({"-" + std::string(1024 * 1024, 'a'), "./t"}).has_value());
  CHECK(split_argv({"./t", std::string(1024 * 1024, 'a'), "\n\x1b[31m; rm"}).has_value());
  CHECK_FALSE(split_argv({"\xe2\x80\x93np", "3", "./t"}).has_value());  // a dash of a word processor
}
