#include "launcher/discovery/discovery.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "tests/unit/discovery/scene.h"

namespace trainrun {
namespace {

constexpr Duration soon = milliseconds(2), never = seconds(100'000);

// A Discovery whose script is `script`; what it tells is kept in one list.
struct Scene {
  ~Scene() {
    discovery.reset();
    wait_until_none_is_left();
  }
  void start(DiscoverySpec given, std::vector<std::string> more_environment = {}) {
    auto environment = directory.environment();
    environment.insert(environment.end(), more_environment.begin(), more_environment.end());
    discovery.emplace(bench.loop, given, Discovery::Context{"0123456789abcdef", 4, 2, 8}, environment,
                      Discovery::Handlers{[this](const HostSet& set) { told(set); },
                                          [this](const std::string& line) {
                                            said.push_back(line);
                                            bench.happened();
                                          }});
    discovery->start();
  }
  void start(const std::string& script, Duration interval, Duration limit = seconds(30)) {
    start({.kind = DiscoveryKind::script, .source = script, .interval = interval, .limit = limit});
  }
  void told(const HostSet& set) {
    CHECK(set.revision == answers.size() + 1);
    std::string text;
    for (const auto& host : set.hosts) {
      text += text.empty() ? "" : " ";
      text += fmt::format("{}:{}", host.name, host.slots);
    }
    answers.push_back(text);
    if (on_answer) on_answer();
    bench.happened();
  }
  void run_until_answers(std::size_t count) {
    bench.run([this, count] { return answers.size() >= count; });
    CHECK(answers.size() == count);
  }
  void run_until_said(std::size_t count) {
    bench.run([this, count] { return said.size() >= count; });
    CHECK(said.size() == count);
  }

  Directory directory;
  Bench bench;
  std::vector<std::string> answers, said;
  std::function<void()> on_answer;
  std::optional<Discovery> discovery;
};

// Runs count themselves: `case $n in` decides what the n-th one prints.
std::string nth(const std::string& cases) {
  return "n=$(cat $DIR/n 2>/dev/null || echo 0); n=$((n + 1)); echo $n >$DIR/n; case $n in " + cases +
         " esac";
}

TEST_CASE("a script is asked again and again; additions are told at once, removals after two looks") {
  Scene scene;
  scene.start(nth("1) echo a:2;; 2) echo a:2; echo b:2;; *) echo b:2;;"), soon);
  scene.run_until_answers(3);
  CHECK(scene.answers == std::vector<std::string>{"a:2", "a:2 b:2", "b:2"});
  CHECK(scene.directory.read("n") == "4\n");
  CHECK(scene.said.empty());
}

TEST_CASE("a flap to empty, a failure and garbage leave the hosts alone, and each kind is said once") {
  Scene scene;
  scene.start(nth("2|4) ;; 6|7) echo a; exit 1;; 8) echo 'Error: 503';; 10) echo a; echo b; echo c;; *) echo "
                  "a; echo b;;"),
              soon);
  scene.run_until_answers(2);
  CHECK(scene.answers == std::vector<std::string>{"a:1 b:1", "a:1 b:1 c:1"});
  REQUIRE(scene.said.size() == 3);
  CHECK(scene.said[0].find("exited with code 1; the last good answer stays (2 hosts)") != std::string::npos);
  CHECK(scene.said[1].find("line 1: 'Error:'") != std::string::npos);
  CHECK(scene.said[2] == "host discovery answers again: 2 hosts");
}

TEST_CASE("first answers that are bad are said, and the script is asked on") {
  Scene scene;
  scene.start(nth("1|2|3) echo 'Error: 503'; echo no api >&2;; *) echo a;;"), soon);
  scene.run_until_answers(1);
  REQUIRE(scene.said.size() == 3);
  CHECK(scene.said[0].ends_with("says 'no api'"));  // once, not three times
  CHECK(scene.said[1].find(": line 1: 'Error:'") != std::string::npos);
  CHECK(scene.said[1].ends_with("there was no good answer yet, and it is asked again"));
  CHECK(scene.said[2] == "host discovery answers: 1 host");
}

TEST_CASE("a script that hangs is ended and asked again; without an answer so far it is told before") {
  Scene scene;
  SUBCASE("at first") {
    scene.start(nth("1) sleep 1000 & wait;; *) echo a;;"), soon, milliseconds(300));
    scene.run_until_said(1);
    CHECK(scene.said[0].ends_with(" has not answered for 0.10 s; after 0.30 s it is killed and asked again"));
    scene.run_until_said(2);
    CHECK(scene.said[1].find("did not end within 0.30 s, and was killed; there was no good answer yet") !=
          std::string::npos);
    scene.run_until_answers(1);
  }
  SUBCASE("later, while the job goes on") {
    scene.start(nth("1) echo a;; 2) sleep 1000 & wait;; *) echo a; echo b;;"), soon, milliseconds(300));
    scene.run_until_answers(1);
    scene.run_until_said(1);
    CHECK(scene.said[0].find("did not end within 0.30 s, and was killed; ") != std::string::npos);
  }
}

TEST_CASE("the script is told about the job; stale variables are replaced") {
  Scene scene;
  scene.start("env | grep ^TRAINRUN_ | sort >$DIR/env; echo run$(cat $DIR/n)", never);
  scene.directory.write("n", "1");
  scene.run_until_answers(1);
  CHECK(scene.directory.read("env") ==
        "TRAINRUN_CURRENT_HOSTS=\nTRAINRUN_FAILED_HOSTS=\nTRAINRUN_JOB_ID=0123456789abcdef\n"
        "TRAINRUN_MAX_NP=8\nTRAINRUN_MIN_NP=2\nTRAINRUN_NP=4\n");
  scene.directory.write("n", "2");
  scene.discovery->set_hosts({"gpu1", "fd00::1"}, {"gpu3"});
  scene.discovery->ask_now();
  scene.run_until_answers(2);
  const auto env = scene.directory.read("env");
  CHECK(env.find("TRAINRUN_CURRENT_HOSTS=gpu1,fd00::1\nTRAINRUN_FAILED_HOSTS=gpu3\n") == 0);

  scene.directory.write("n", "3");
  scene.discovery->set_hosts(std::vector<std::string>(60'000, "host"), {});
  scene.discovery->ask_now();
  scene.run_until_answers(3);
  const auto list = scene.directory.read("env");
  CHECK(list.find('\n') > 60'000);
  CHECK(list.find('\n') < 70'000);
  CHECK(list.find("host\nTRAINRUN_FAILED_HOSTS=") != std::string::npos);
}

TEST_CASE("one run at a time: questions during a run are one more run after it") {
  Scene scene;
  ::mkfifo((scene.directory / "go").c_str(), 0600);
  scene.start("mkdir $DIR/lock || echo x >>$DIR/overlap; cat $DIR/go; rmdir $DIR/lock; echo x >>$DIR/count",
              never);
  for (int i = 0; i < 10; ++i) scene.discovery->ask_now();
  scene.directory.write("go", "a\n");  // blocks until the first run reads it
  scene.run_until_answers(1);
  for (int i = 0; i < 10; ++i) scene.discovery->ask_now();
  scene.directory.write("go", "a\nb\n");
  scene.run_until_answers(2);
  CHECK(scene.directory.read("overlap").empty());
  CHECK(scene.directory.read("count") == "x\nx\n");
}

TEST_CASE("looks in quick succession are one witness, so a burst of questions tears nothing down") {
  Scene scene;
  scene.start(nth("1) echo a; echo b;; 2|3|4) echo c$n;; 5) echo d; echo '!a';;"), never);
  for (std::size_t i = 1; i <= 5; ++i) {
    scene.run_until_answers(i);
    scene.discovery->ask_now();
  }
  CHECK(scene.answers[3] == "a:1 b:1 c2:1 c3:1 c4:1");
  CHECK(scene.answers[4] == "b:1 c2:1 c3:1 c4:1 d:1");
}

TEST_CASE("stop ends a run that goes on, and nothing is told after it") {
  Scene scene;
  ::mkfifo((scene.directory / "up").c_str(), 0600);
  scene.start("sleep 1000 & echo up >$DIR/up; wait; echo a", soon);
  CHECK(scene.directory.read("up") == "up\n");
  scene.discovery->stop();
  wait_until_none_is_left();
  scene.discovery->ask_now();
  scene.bench.loop.run();  // nothing is left to wait for
  CHECK(scene.answers.empty());
  CHECK(scene.said.empty());
}

TEST_CASE("a handler may stop or destroy the discovery, or ask again") {
  for (const bool destroy : {false, true}) {
    Scene scene;
    scene.on_answer = [&] {
      if (scene.answers.size() < 3) return scene.discovery->ask_now();
      if (!destroy) return scene.discovery->stop();
      scene.discovery.reset();
    };
    scene.start(nth("*) echo a$n; exit 0;;"), never);
    scene.run_until_answers(3);
    scene.bench.loop.run();
    CHECK(scene.answers.size() == 3);
  }
}

TEST_CASE(
    "a file is read when it comes, is replaced, goes and comes back, without waiting for the interval") {
  Scene scene;
  const auto hosts = scene.directory / "hosts";
  scene.start({.kind = DiscoveryKind::file, .source = hosts, .default_slots = 4, .interval = never});
  scene.run_until_said(1);
  CHECK(scene.said[0].find("No such file or directory") != std::string::npos);
  CHECK(scene.said[0].ends_with("there was no good answer yet, and it is asked again"));
  scene.directory.write("hosts", "a\n");
  scene.run_until_answers(1);
  scene.directory.write("hosts.new", "a\nb:2\n");
  std::filesystem::rename(hosts + ".new", hosts);
  scene.run_until_answers(2);
  CHECK(scene.answers == std::vector<std::string>{"a:4", "a:4 b:2"});
  const auto before = scene.said.size();
  std::filesystem::remove(hosts);
  scene.bench.run([&] { return scene.said.size() > before && scene.said.back().ends_with("(2 hosts)"); });
  scene.directory.write("hosts", "a\nb:2\nc\n");
  scene.run_until_answers(3);
  CHECK(scene.answers[2] == "a:4 b:2 c:4");
}

TEST_CASE(
    "a file that no event tells of is read at the interval, and a host that left it goes by two looks") {
  Scene scene;
  // The link's own directory is watched, but not the one that it leads to: as on a network file system.
  std::filesystem::create_directory(scene.directory / "far");
  scene.directory.write("far/hosts", "a\nb\n");
  std::filesystem::create_symlink("far/hosts", scene.directory / "hosts");
  scene.start({.kind = DiscoveryKind::file, .source = scene.directory / "hosts", .interval = soon});
  scene.run_until_answers(1);
  scene.directory.write("far/new", "b\n");
  std::filesystem::rename(scene.directory / "far/new", scene.directory / "far/hosts");
  scene.run_until_answers(2);
  CHECK(scene.answers == std::vector<std::string>{"a:1 b:1", "b:1"});
}

TEST_CASE("a DNS name gives addresses") {
  Scene scene;
  scene.start({.kind = DiscoveryKind::dns, .source = "localhost:3", .interval = never});
  scene.run_until_answers(1);
  CHECK((scene.answers[0] == "127.0.0.1:3" || scene.answers[0] == "::1:3"));
}

TEST_CASE("a DNS name in another order changes nothing, and one without an address is a failure") {
  Scene scene;
  scene.directory.program("getent",
                          nth("1) echo 10.0.0.2 STREAM; echo 10.0.0.1 STREAM;; 3) exit 2;; "
                              "4) echo 10.0.0.3 STREAM; echo 10.0.0.1 STREAM; echo 10.0.0.2 STREAM;; "
                              "*) echo 10.0.0.1 STREAM; echo 10.0.0.2 STREAM;;"));
  scene.start({.kind = DiscoveryKind::dns, .source = "workers", .interval = soon});
  scene.run_until_answers(2);
  CHECK(scene.answers ==
        std::vector<std::string>{"10.0.0.1:1 10.0.0.2:1", "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1"});
  CHECK(scene.said[0] ==
        "host discovery: getent ahosts workers exited with code 2 (does the name have an address "
        "now?); the last good answer stays (2 hosts)");
}

TEST_CASE("Slurm's live list counts, not the environment's") {
  Scene scene;
  scene.directory.program("squeue", "test \"$*\" = '-h -j 42 -o %N' || exit 1\ncat $DIR/nodes");
  scene.directory.write("nodes", "n[1-3]\n");
  scene.start({.kind = DiscoveryKind::slurm, .interval = soon},
              {"SLURM_JOB_ID=42", "SLURM_JOB_NODELIST=n[1-4]", "SLURM_TASKS_PER_NODE=8(x4)"});
  scene.run_until_answers(1);
  scene.directory.write("nodes.new", "n[1,3]\n");
  std::filesystem::rename(scene.directory / "nodes.new", scene.directory / "nodes");
  scene.run_until_answers(2);
  CHECK(scene.answers == std::vector<std::string>{"n1:8 n2:8 n3:8", "n1:8 n3:8"});
}

TEST_CASE("what can never be asked is said once, and none is none") {
  Scene scene;
  scene.start({.kind = DiscoveryKind::slurm});
  scene.run_until_said(1);
  CHECK(scene.said[0].find("SLURM_JOB_ID is not set") != std::string::npos);
  scene.discovery->ask_now();
  scene.bench.loop.run();
  scene.start({});
  scene.discovery->ask_now();
  scene.bench.loop.run();
  CHECK(scene.said.size() == 1);
}

}  // namespace
}  // namespace trainrun
