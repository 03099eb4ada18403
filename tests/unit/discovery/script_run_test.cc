#include "launcher/discovery/script_run.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <optional>

#include "launcher/base/fd.h"
#include "tests/unit/discovery/scene.h"

namespace trainrun {
namespace {

struct Scene {
  Scene() = default;
  ~Scene() { wait_until_none_is_left(); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  void start(const std::string& command, Duration limit = seconds(30),
             std::vector<std::string> arguments = {}) {
    ScriptCommand script{command, std::move(arguments), directory.environment(), limit};
    run.emplace(bench.loop, script,
                ScriptRun::Handlers{[this](ScriptAnswer given) {
                                      CHECK_FALSE(answer.has_value());
                                      answer = std::move(given);
                                      bench.happened();
                                    },
                                    [this] {
                                      CHECK(answer.has_value());
                                      CHECK_FALSE(gone);
                                      gone = true;
                                      bench.happened();
                                    }});
  }
  // What it answered: its output, or "error: ...".
  std::string ask(const std::string& command, Duration limit = seconds(30),
                  std::vector<std::string> arguments = {}) {
    answer.reset();
    gone = false;
    start(command, limit, std::move(arguments));
    bench.run([this] { return gone; });
    run.reset();
    return answer->output ? *answer->output : "error: " + answer->output.error().message;
  }

  Directory directory;
  Bench bench;
  std::optional<ScriptRun> run;
  std::optional<ScriptAnswer> answer;
  bool gone = false;
};

TEST_CASE("a run gives its output; it has arguments, our environment, an empty stdin and its own session") {
  Scene scene;
  CHECK(scene.ask("printf 'gpu1:8\\ngpu2'") == "gpu1:8\ngpu2");
  CHECK(scene.ask(":").empty());
  CHECK(scene.ask("echo \"$1|$2|$#|$TRAINRUN_NP\"", seconds(30), {"a b", "'$x"}) == "a b|'$x|2|stale\n");
  CHECK(scene.ask("cat; echo end") == "end\n");
  // One group, which is its session's, and not ours.
  CHECK(scene.ask("read -r pid name state parent group session rest </proc/$$/stat; "
                  "test $group = $session && test $group = $parent && test $session != $1 && echo apart",
                  seconds(30), {std::to_string(::getsid(0))}) == "apart\n");
  CHECK(scene.ask("ls /proc/self/fd | wc -l") == "4\n");  // 0, 1, 2, and what ls opens itself
}

TEST_CASE("a script that waits for all of its children does not meet those that we gave it") {
  Scene scene;
  CHECK(
      scene.ask("python3 -c 'import os\ntry:\n  os.wait()\nexcept ChildProcessError:\n  print(\"none\")'") ==
      "none\n");
}

TEST_CASE("a failure says how it ended, and its last words") {
  Scene scene;
  CHECK(scene.ask("echo gpu1; exit 3") == "error: exited with code 3");
  CHECK(scene.ask("echo one >&2; printf 'two\\n\\n' >&2; exit 1") ==
        "error: exited with code 1; its last words: 'two'");
  CHECK(scene.answer->complaints == std::vector<std::string>{"'one'", "'two'"});
  CHECK(scene.ask("kill -KILL $$").starts_with("error: exited with code 137"));  // as shells say it
  CHECK(scene.ask("kill -TERM 0") == "error: was killed by SIGTERM");
  CHECK(scene.ask("nosuchprogram").starts_with("error: exited with code 127; its last words: "));
}

TEST_CASE("complaints of a good run come with its answer, the first five lines of them") {
  Scene scene;
  CHECK(scene.ask("for i in 1 2 3 4 5 6 7; do echo no $i >&2; done; echo a") == "a\n");
  CHECK(scene.answer->complaints ==
        std::vector<std::string>{"'no 1'", "'no 2'", "'no 3'", "'no 4'", "'no 5'"});
  CHECK(scene.answer->more_complaints == 2);
}

TEST_CASE("a script that hangs is killed at its limit, with all that it started") {
  Scene scene;
  const auto said = scene.ask(
      "trap '' TERM HUP; sleep 1000 & (sleep 1000 | sleep 1000) & echo stuck >&2; wait", milliseconds(300));
  CHECK(said == "error: did not end within 0.30 s, and was killed; its last words: 'stuck'");
  CHECK(scene.answer->output.error().code == Code::timeout);
  wait_until_none_is_left();
}

TEST_CASE("ten megabytes are an answer, one byte more is none, and endless output is not waited for") {
  Scene scene;
  CHECK(scene.ask("head -c 10000000 /dev/zero").size() == 10'000'000);
  CHECK(scene.ask("head -c 10000001 /dev/zero") == "error: printed more than 10 MB, and was killed");
  CHECK(scene.ask("yes") == "error: printed more than 10 MB, and was killed");
}

TEST_CASE("a process left behind with stdout open neither delays the answer nor survives it") {
  Scene scene;
  CHECK(scene.ask("sleep 1000 & echo gpu1") == "gpu1\n");
  wait_until_none_is_left();
  CHECK(scene.ask("sleep 1000 & exit 4") == "error: exited with code 4");
  CHECK(scene.ask("exec >&-; (exit 0)").empty());  // stdout ends before the script
}

TEST_CASE("what a child writes just after the end of all others still counts") {
  Scene scene;
  CHECK(scene.ask("(while ! grep -q '^State:.Z' /proc/$PPID/status; do :; done; echo late) & echo early") ==
        "early\nlate\n");
}

TEST_CASE("a run that ends well leaves no process to its parent's reaper") {
  Scene scene;
  CHECK(scene.ask("echo a; exit 0") == "a\n");
  CHECK(scene.ask("exit 1").starts_with("error"));
  CHECK(wait_until_none_is_left() == 0);
}

TEST_CASE("destroying a run ends it, and nothing is told") {
  Scene scene;
  ::mkfifo((scene.directory / "up").c_str(), 0600);
  scene.start("sleep 1000 & echo up >$DIR/up; wait");
  CHECK(scene.directory.read("up") == "up\n");
  scene.run.reset();
  wait_until_none_is_left();
  bool turned = false;
  scene.bench.loop.post([&] { turned = true; });
  scene.bench.run([&] { return turned; });
  CHECK_FALSE(scene.answer.has_value());
}

TEST_CASE("a run may be destroyed by its own answer") {
  Scene scene;
  for (const char* command : {"echo a", "exit 1", "yes"}) {
    bool told = false;
    scene.run.emplace(scene.bench.loop, ScriptCommand{command, {}, scene.directory.environment()},
                      ScriptRun::Handlers{[&](const ScriptAnswer&) {
                                            scene.run.reset();
                                            told = true;
                                            scene.bench.happened();
                                          },
                                          [] { FAIL("told after the end"); }});
    scene.bench.run([&] { return told; });
    wait_until_none_is_left();
  }
}

TEST_CASE("when the launcher is killed, nothing of its script survives") {
  Scene scene;
  ::mkfifo((scene.directory / "up").c_str(), 0600);
  const pid_t launcher = ::fork();
  REQUIRE(launcher >= 0);
  if (launcher == 0) {
    io::Loop loop;
    const ScriptCommand command{
        "sleep 1000 & (sleep 1000; :) & echo up >$DIR/up; wait", {}, scene.directory.environment()};
    const ScriptRun run(loop, command, {});
    loop.run();
    ::_exit(1);
  }
  CHECK(scene.directory.read("up") == "up\n");
  REQUIRE(::kill(launcher, SIGKILL) == 0);
  CHECK(wait_until_none_is_left() >= 4);
}

TEST_CASE("what cannot be started is an answer too") {
  Scene scene;
  const ScriptCommand command{":", {}, {"BIG=" + std::string(200'000, 'x')}};
  std::string said;
  scene.run.emplace(
      scene.bench.loop, command,
      ScriptRun::Handlers{[&](const ScriptAnswer& given) { said = given.output.error().message; },
                          [&] { scene.gone = true, scene.bench.happened(); }});
  scene.bench.run([&] { return scene.gone; });
  CHECK(said == "could not be started (exec): Argument list too long");
}

}  // namespace
}  // namespace trainrun
