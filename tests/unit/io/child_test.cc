#include "launcher/io/child.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>

#include "launcher/base/fd.h"
#include "launcher/base/open_files.h"
#include "launcher/base/pipe.h"

using namespace trainrun;
using io::Child;
using io::ChildEnd;

namespace {

constexpr Duration time_limit = seconds(60);  // against hanging only

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

bool lives(pid_t pid) { return ::kill(pid, 0) == 0; }

// A loop, one child after the other, and at the end the certainty that no process and no descriptor is left.
struct Scene {
  Scene() {
    ::signal(SIGPIPE, SIG_IGN);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a child leaves behind becomes ours, so that it can be counted
    // Asio opens its own descriptors when they are first needed.
    io::Timer(loop).arm(io::Loop::now(), [] {});
    loop.run();
    loop.context().restart();
    before = open_descriptors();
  }
  ~Scene() {
    child.reset();
    CHECK(open_descriptors() == before);
    CHECK(none_is_left());
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  // Waits for whatever child or orphan of ours there is; the alarm ends the test program if one stays.
  static bool none_is_left() {
    ::alarm(60);
    while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
    }
    ::alarm(0);
    return errno == ECHILD;
  }

  static io::ChildRequest shell(const std::string& script) {
    io::ChildRequest request;
    request.path = "/bin/sh";
    request.argv = {"sh", "-c", script};
    request.env = {"PATH=/usr/bin:/bin"};
    return request;
  }
  Child& start(const io::ChildRequest& request) {
    end.reset();
    gone = false;
    auto started = Child::start(loop, request,
                                {[this](ChildEnd given) {
                                   CHECK_FALSE(end.has_value());
                                   end = std::move(given);
                                 },
                                 [this] {
                                   CHECK(end.has_value());
                                   gone = true;
                                   loop.stop();
                                 }});
    REQUIRE_MESSAGE(started, started.error().describe());
    child = std::move(*started);
    return *child;
  }
  void run() {
    io::Timer limit(loop);
    limit.arm(io::Loop::now() + time_limit, [this] { loop.stop(); });
    loop.run();
    loop.context().restart();
    CHECK(gone);
  }
  ChildEnd ask(const io::ChildRequest& request) {
    start(request);
    run();
    child.reset();
    return end.value_or(ChildEnd{});
  }

  io::Loop loop;
  std::size_t before = 0;
  std::unique_ptr<Child> child;
  std::optional<ChildEnd> end;
  bool gone = false;
};

}  // namespace

TEST_SUITE("child") {
  TEST_CASE("exit 9 and SIGKILL are two ends; stdout and stderr are whole, and stdin is empty") {
    Scene scene;
    auto end = scene.ask(Scene::shell("cat; echo out; echo err >&2; exit 9"));
    CHECK(end.status == ExitStatus::exited(9));
    CHECK(end.by == ChildEnd::By::itself);
    CHECK(end.out == "out\n");
    CHECK(end.err == "err\n");
    end = scene.ask(Scene::shell("kill -KILL $$"));
    CHECK(end.status == ExitStatus::killed(SIGKILL, false));
    CHECK(end.by == ChildEnd::By::itself);
    CHECK(scene.ask(Scene::shell("exit 0")).status == ExitStatus::exited(0));
  }

  TEST_CASE("what cannot be started says where and why, and leaves nothing") {
    Scene scene;
    io::ChildRequest request;
    request.path = "/nowhere/at/all";
    request.argv = {"all"};
    const auto missing = Child::start(scene.loop, request, {});
    REQUIRE_FALSE(missing);
    CHECK(missing.error() == ExitStatus::not_started(SpawnStage::exec, ENOENT));
    request = Scene::shell(":");
    request.directory = "/nowhere";
    CHECK(Child::start(scene.loop, request, {}).error() ==
          ExitStatus::not_started(SpawnStage::directory, ENOENT));
  }

  TEST_CASE("without a descriptor to spare it says so, whichever of its descriptors it was") {
    Scene scene;
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const Fd lowest(::dup(0));
    int more = 0;  // descriptors that may still be opened
    for (bool started = false; !started; ++more) {
      REQUIRE(more < 64);
      auto low = limit;
      low.rlim_cur = static_cast<rlim_t>(lowest.get() + 1 + more);
      REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
      auto request = Scene::shell(":");
      request.stdin_pipe = true;
      const auto child = Child::start(scene.loop, request, {});
      ::setrlimit(RLIMIT_NOFILE, &limit);
      started = child.has_value();
      if (!started) CHECK(child.error() == ExitStatus::not_started(SpawnStage::files, EMFILE));
    }
    CHECK(more > 8);  // three pipes and two for its end
    CHECK(open_descriptors() == scene.before + 1);
  }

  TEST_CASE(
      "the child has a session of its own, what it is given, the given limit, and no other descriptor") {
    Scene scene;
    CHECK(scene.ask(Scene::shell("ls /proc/self/fd | wc -l")).out == "4\n");  // and what ls opens
    CHECK(scene
              .ask(Scene::shell("read -r pid name state parent group session rest </proc/$$/stat; "
                                "test $group = $$ && test $session = $$ && echo apart"))
              .out == "apart\n");
    FdPair given;
    REQUIRE(open_pipe(given) == 0);
    auto request = Scene::shell("echo hidden; echo said >&2");
    request.out.fd = given.second.get();
    const auto end = scene.ask(request);
    CHECK(end.out.empty());
    CHECK(end.err == "said\n");
    char buffer[16];
    CHECK(::read(given.first.get(), buffer, sizeof buffer) == 7);
  }

  TEST_CASE("output of more than a pipe's size comes in order, to whoever hears it") {
    Scene scene;
    std::string heard;
    auto request = Scene::shell("seq 1 200000");
    request.out.heard = [&](std::string_view bytes) { heard += bytes; };
    const auto end = scene.ask(request);
    CHECK(end.out.empty());
    std::string wanted;
    for (int i = 1; i <= 200'000; ++i) wanted += std::to_string(i) + "\n";
    CHECK((heard == wanted));
  }

  TEST_CASE("output up to the bound is taken, one byte more ends the child and all it started") {
    Scene scene;
    auto request = Scene::shell("head -c 300000 /dev/zero");
    request.out.most = 300'000;
    CHECK(scene.ask(request).out.size() == 300'000);
    request.out.most = 299'999;
    CHECK(scene.ask(request).by == ChildEnd::By::too_much);
    request = Scene::shell("sleep 1000 & yes");
    request.out.most = 1000;
    const auto end = scene.ask(request);
    CHECK(end.by == ChildEnd::By::too_much);
    CHECK(end.status == ExitStatus::killed(SIGKILL, false));
    CHECK(end.out.size() <= 1000);
  }

  TEST_CASE("a child that closes its pipes early is waited for") {
    Scene scene;
    const auto end =
        scene.ask(Scene::shell("echo a; exec >&- 2>&-; while :; do "
                               "i=$((i + 1)); test $i -gt 20000 && exit 3; done"));
    CHECK(end.out == "a\n");
    CHECK(end.status == ExitStatus::exited(3));
  }

  TEST_CASE("a grandchild that holds the pipes is listened to for the drain time, and does not survive it") {
    Scene scene;
    auto request = Scene::shell("sleep 1000 & echo $!; exit 4");
    request.drain = milliseconds(200);
    const auto end = scene.ask(request);
    CHECK(end.status == ExitStatus::exited(4));
    CHECK_FALSE(end.out.empty());
    CHECK(Scene::none_is_left());
  }

  TEST_CASE("without whole_group what it leaves behind lives on") {
    Scene scene;
    auto request = Scene::shell("sleep 1000 >/dev/null 2>&1 & echo $!");
    request.whole_group = false;
    const auto left = static_cast<pid_t>(std::atoi(scene.ask(request).out.c_str()));
    REQUIRE(left > 1);
    CHECK(lives(left));
    ::kill(left, SIGKILL);
  }

  TEST_CASE("at its limit it is killed, or first asked and given its grace") {
    Scene scene;
    auto request = Scene::shell("trap '' TERM; sleep 1000 & echo up; wait; wait");
    request.limit = milliseconds(300);
    auto end = scene.ask(request);
    CHECK(end.by == ChildEnd::By::limit);
    CHECK(end.status == ExitStatus::killed(SIGKILL, false));
    CHECK(end.out == "up\n");
    request.grace = milliseconds(200);  // it does not care
    CHECK(scene.ask(request).status == ExitStatus::killed(SIGKILL, false));
    request = Scene::shell("trap 'echo asked; exit 5' TERM; echo up; while :; do sleep 1; done");
    request.limit = milliseconds(300);
    request.grace = time_limit;
    end = scene.ask(request);
    CHECK(end.by == ChildEnd::By::limit);
    CHECK(end.status == ExitStatus::exited(5));
    CHECK(end.out.ends_with("asked\n"));
  }

  TEST_CASE("an order ends it, also while it is stopped") {
    Scene scene;
    auto request = Scene::shell("kill -STOP $$");
    request.grace = time_limit;
    auto& child = scene.start(request);
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WSTOPPED) == 0);
    child.end();
    child.end();  // once is enough
    scene.run();
    CHECK(scene.end->by == ChildEnd::By::order);
    CHECK(scene.end->status == ExitStatus::killed(SIGTERM, false));
  }

  TEST_CASE("what is written is read, its end is seen, and a child that reads nothing is no error") {
    Scene scene;
    auto request = Scene::shell("cat");
    request.stdin_pipe = true;
    const std::string much(3'000'000, 'm');
    auto* child = &scene.start(request);
    child->write("first ");
    child->write(much);
    child->close_stdin();
    child->write("too late");
    scene.run();
    CHECK((scene.end->out == "first " + much));
    request = Scene::shell("exec <&-; echo up; exit 2");  // EPIPE
    request.stdin_pipe = true;
    child = &scene.start(request);
    child->write(much);
    scene.run();
    CHECK(scene.end->status == ExitStatus::exited(2));
    child->write("to nobody");
    child->close_stdin();
  }

  TEST_CASE("destroyed while it runs it is killed and reaped, and nobody is told") {
    Scene scene;
    auto& child = scene.start(Scene::shell("trap '' TERM; sleep 1000 & sleep 1000"));
    const auto pid = child.pid();
    scene.child.reset();
    CHECK_FALSE(lives(pid));
    io::Timer turn(scene.loop);
    turn.arm(io::Loop::now(), [] {});
    scene.loop.run();
    CHECK_FALSE(scene.end.has_value());
  }

  TEST_CASE("it may be destroyed by its own handlers, each of them") {
    Scene scene;
    for (const std::string from : {"heard", "ended", "gone"}) {
      CAPTURE(from);
      std::unique_ptr<Child> child;
      bool told = false;
      const auto drop = [&](const std::string& where) {
        if (where != from) return;
        child.reset();
        told = true;
        scene.loop.stop();
      };
      auto request = Scene::shell("echo a; echo b; exit 1");
      request.out.heard = [&](std::string_view) { drop("heard"); };
      child = std::move(*Child::start(scene.loop, request,
                                      {[&](const ChildEnd&) { drop("ended"); }, [&] { drop("gone"); }}));
      io::Timer limit(scene.loop);
      limit.arm(io::Loop::now() + time_limit, [&] { scene.loop.stop(); });
      scene.loop.run();
      scene.loop.context().restart();
      CHECK(told);
    }
  }

  TEST_CASE("who reaps all children hands this one over, and its end is told once") {
    Scene scene;
    auto request = Scene::shell("read -r line; echo last; exit 6");
    request.stdin_pipe = true;
    auto& child = scene.start(request);
    child.reap();  // it still runs
    CHECK(lives(child.pid()));
    child.write("go on\n");
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT) == 0);
    child.reap();
    CHECK(::waitpid(child.pid(), nullptr, WNOHANG) == -1);
    child.reap();
    if (!scene.gone) scene.run();
    CHECK(scene.end->status == ExitStatus::exited(6));
    CHECK(scene.end->out == "last\n");
  }

  TEST_CASE("a status that somebody else took is no status") {
    Scene scene;
    auto& child = scene.start(Scene::shell("echo a"));
    REQUIRE(::waitpid(child.pid(), nullptr, 0) == child.pid());
    scene.run();
    CHECK_FALSE(scene.end->status.has_value());
    CHECK(scene.end->out == "a\n");
  }

  TEST_CASE("a hundred at once each end with their own word and leave no descriptor") {
    Scene scene;
    std::vector<std::unique_ptr<Child>> children;
    std::size_t ended = 0;
    for (int i = 0; i < 100; ++i) {
      const auto wanted = std::to_string(i) + "\n";
      auto started = Child::start(scene.loop, Scene::shell("echo " + wanted + "exit " + std::to_string(i)),
                                  {[&, i, wanted](const ChildEnd& end) {
                                    CHECK(end.out == wanted);
                                    CHECK(end.status == ExitStatus::exited(i));
                                    if (++ended == 100) scene.loop.stop();
                                  }});
      REQUIRE_MESSAGE(started, started.error().describe());
      children.push_back(std::move(*started));
    }
    io::Timer limit(scene.loop);
    limit.arm(io::Loop::now() + time_limit, [&] { scene.loop.stop(); });
    scene.loop.run();
    CHECK(ended == 100);
  }

  TEST_CASE("all of them are ended together: by themselves, by TERM, by KILL") {
    Scene scene;
    std::vector<std::unique_ptr<Child>> children;
    std::vector<pid_t> pids;
    for (const char* script : {"exit 0", "sleep 1000", "trap '' TERM; while :; do sleep 1000; done"}) {
      children.push_back(std::move(*Child::start(scene.loop, Scene::shell(script), {})));
      pids.push_back(children.back()->pid());
    }
    Child::end_all(std::move(children), milliseconds(200));
    for (const auto pid : pids) CHECK_FALSE(lives(pid));
  }
}
