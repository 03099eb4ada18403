#include "launcher/io/spawn.h"

#include <dirent.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>

#include "launcher/base/open_files.h"

using namespace trainrun;

namespace {

// A private directory with a program in it; gone at the end.
struct Directory {
  Directory() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string file(const std::string& name, const std::string& text, mode_t mode) const {
    const auto full = path + "/" + name;
    std::ofstream(full) << text;
    ::chmod(full.c_str(), mode);
    return full;
  }
  std::string path = "/tmp/spawn_test.XXXXXX";
};

struct Ran {
  io::Spawned spawned;
  int status = -1;
  std::string out;
};

const std::vector<std::string> small_env{"A=1", "B=two words"};

Ran run(std::vector<std::string> argv, const std::function<void(io::SpawnRequest&)>& change = {}) {
  auto out = make_pipe();
  REQUIRE(out);
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  io::SpawnRequest request;
  request.path = argv.empty() ? "" : argv.front();
  request.argv = std::move(argv);
  request.env = io::as_words(small_env);
  request.directory = "/";
  request.stdin_fd = null.get();
  request.stdout_fd = out->second.get();
  request.stderr_fd = null.get();
  if (change) change(request);
  Ran ran;
  ran.spawned = io::spawn(request);
  out->second.reset();
  if (ran.spawned.pid < 0) return ran;
  char buffer[4096];
  for (ssize_t n; (n = ::read(out->first.get(), buffer, sizeof buffer)) > 0;)
    ran.out.append(buffer, static_cast<std::size_t>(n));
  REQUIRE(::waitpid(ran.spawned.pid, &ran.status, 0) == ran.spawned.pid);
  return ran;
}

std::vector<std::string> shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

}  // namespace

TEST_SUITE("spawn") {
  TEST_CASE("argv, environment, directory and stdio are those asked for") {
    const Directory directory;
    const auto ran = run({"/usr/bin/env", "-0"}, [](auto& request) { request.argv = {"env", "-0"}; });
    CHECK(ran.out == std::string("A=1\0B=two words\0", 16));
    CHECK(run(shell("pwd"), [&](auto& request) { request.directory = directory.path; }).out ==
          directory.path + "\n");
    CHECK(run({"/bin/sh", "-c", "printf '<%s>' \"$0\" \"$@\"", "name", "", "a b", "*"}).out ==
          "<name><><a b><*>");
    CHECK(WEXITSTATUS(run(shell("exit 7")).status) == 7);
    const auto file = directory.file("in", "typed\n", 0600);
    const Fd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    CHECK(run(shell("cat; echo err >&2"), [&](auto& request) {
            request.stdin_fd = in.get();
            request.stderr_fd = request.stdout_fd;
          }).out == "typed\nerr\n");
  }

  TEST_CASE("each step that fails says where and why, and nothing is left to reap") {
    const Directory directory;
    struct Row {
      SpawnStage stage;
      int error;
      std::function<void(io::SpawnRequest&)> change;
    };
    const auto no_program = directory.file("plain", "text", 0644);
    const auto bad_script = directory.file("script", "#!/no/such/interpreter\n", 0755);
    const auto of_elsewhere = directory.file("arm",
                                             std::string("\x7f"
                                                         "ELF\0\n",
                                                         6),
                                             0755);
    const Row rows[] = {
        {SpawnStage::files, EBADF, [](auto& request) { request.stdin_fd = -1; }},
        {SpawnStage::directory, ENOENT, [](auto& request) { request.directory = "/no/such"; }},
        {SpawnStage::directory, ENOTDIR, [&](auto& request) { request.directory = no_program; }},
        {SpawnStage::affinity, EINVAL, [](auto& request) { request.cpus = {100'000}; }},
        {SpawnStage::exec, ENOENT, [](auto& request) { request.path = "/no/such"; }},
        {SpawnStage::exec, EACCES, [&](auto& request) { request.path = no_program; }},
        {SpawnStage::exec, ENOENT, [&](auto& request) { request.path = bad_script; }},
        {SpawnStage::exec, ENOEXEC, [&](auto& request) { request.path = of_elsewhere; }},
    };
    const auto before = open_descriptors();
    for (const auto& row : rows) {
      const auto ran = run(shell("true"), row.change);
      CAPTURE(to_string(row.stage));
      CHECK(ran.spawned.pid == -1);
      CHECK(ran.spawned.stage == row.stage);
      CHECK(ran.spawned.error == row.error);
      CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
      CHECK(errno == ECHILD);
    }
    CHECK(open_descriptors() == before);
  }

  TEST_CASE("the child has no descriptor but 0, 1 and 2, whatever we have open") {
    const Fd leak(::open("/dev/null", O_RDONLY));  // not close-on-exec
    REQUIRE(leak);
    CHECK(run(shell("ls /proc/self/fd | tr '\\n' ' '")).out ==
          "0 1 2 3 ");  // 3 is the directory that ls reads
  }

  TEST_CASE("a fourth descriptor is the child's 20, whatever number it and the others have here") {
    auto pipe = make_pipe();
    REQUIRE(pipe);
    CHECK(write_all(pipe->second.get(), "through 20\n"));
    const auto ran = run(shell("head -n 1 </dev/fd/20; ls -v /proc/self/fd | tr '\\n' ' '"),
                         [&](auto& request) { request.fourth_fd = pipe->first.get(); });
    CHECK(ran.out == "through 20\n0 1 2 3 20 ");
    CHECK(write_all(pipe->second.get(), "as stdin\n"));
    const auto crossed = run(shell("head -n 1 </dev/fd/20"), [&](auto& request) {
      request.fourth_fd = ::fcntl(pipe->first.get(), F_DUPFD_CLOEXEC, 3);
      request.stdin_fd = request.fourth_fd;
    });
    CHECK(crossed.out == "as stdin\n");
  }

  TEST_CASE("the child has the limit on open files that we were given, not the one that we raised") {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 77;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    raise_open_files();
    CHECK(run({"/bin/sh", "-c", "ulimit -Sn"}).out == "77\n");
  }

  TEST_CASE("stdio that is itself among 0, 1, 2 is not lost in the exchange") {
    const auto ran = run(shell("echo to-out; echo to-err >&2"), [](auto& request) {
      request.stdin_fd = STDERR_FILENO;
      request.stderr_fd = request.stdout_fd;
    });
    CHECK(ran.out == "to-out\nto-err\n");
  }

  TEST_CASE("signals are as a program expects them: nothing blocked, nothing ignored") {
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGUSR1, SIG_IGN);
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &blocked, &before);
    const auto ran = run({"/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"});
    CHECK(ran.out == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    sigset_t now;
    ::sigprocmask(SIG_SETMASK, &before, &now);
    CHECK(sigismember(&now, SIGTERM) == 1);  // ours is as it was
    ::signal(SIGHUP, SIG_IGN);
    CHECK(run({"/bin/grep", "^SigIgn", "/proc/self/status"}, [](auto& request) {
            request.keep_hangup_ignored = true;
          }).out == "SigIgn:\t0000000000000001\n");
    ::signal(SIGHUP, SIG_DFL);
    ::signal(SIGUSR1, SIG_DFL);
    ::signal(SIGPIPE, SIG_DFL);
  }

  TEST_CASE("the child leads a session and process group of its own") {
    const auto ran = run(shell("cut -d' ' -f1,5,6 /proc/$$/stat"));
    CHECK(ran.out == fmt::format("{0} {0} {0}\n", ran.spawned.pid));
  }

  TEST_CASE("the child runs on the CPUs asked for") {
    cpu_set_t set;
    REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
    std::uint32_t last = 0;
    for (std::uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) last = cpu;
    }
    CHECK(run({"/bin/grep", "^Cpus_allowed_list", "/proc/self/status"}, [last](auto& request) {
            request.cpus = {last};
          }).out == fmt::format("Cpus_allowed_list:\t{}\n", last));
  }

  TEST_CASE("a script without #! is run by sh, with its arguments") {
    const Directory directory;
    const auto script = directory.file("script", "echo \"$1 $2\"\n", 0755);
    CHECK(run({script, "a", "b c"}).out == "a b c\n");
  }

  TEST_CASE("a child dies with its parent, even when that is killed") {
    auto pipe = make_pipe();
    REQUIRE(pipe);
    const pid_t parent = ::fork();
    REQUIRE(parent >= 0);
    if (parent == 0) {
      io::SpawnRequest request{"/bin/sh",
                               {"sh", "-c", "echo up; exec sleep 300"},
                               {},
                               "/",
                               {},
                               STDIN_FILENO,
                               pipe->second.get(),
                               pipe->second.get(),
                               false};
      io::spawn(request);
      for (;;) ::pause();
    }
    pipe->second.reset();
    char buffer[16];
    CHECK(::read(pipe->first.get(), buffer, sizeof buffer) == 3);
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    pollfd end{pipe->first.get(), POLLIN, 0};
    REQUIRE(::poll(&end, 1, 20'000) == 1);  // its end of the pipe closes when it dies
    CHECK(::read(pipe->first.get(), buffer, sizeof buffer) == 0);
  }

  TEST_CASE("a program is found as execvp finds it") {
    const Directory one, two;
    one.file("tool", "", 0644);
    two.file("tool", "", 0755);
    two.file("only", "", 0755);
    one.file("locked", "", 0644);
    const auto path = one.path + ":" + two.path;
    CHECK(io::find_program("tool", path, "/").path ==
          two.path + "/tool");  // what cannot be run is passed over
    CHECK(io::find_program("locked", path, "/").error == EACCES);
    CHECK(io::find_program("nothing", path, "/").error == ENOENT);
    CHECK(io::find_program("", path, "/").error == ENOENT);
    CHECK(io::find_program("./only", path, two.path).path == two.path + "/./only");
    CHECK(io::find_program("./only", path, one.path).error == ENOENT);
    CHECK(io::find_program("only", "", two.path).path ==
          two.path + "/only");  // an empty part is the directory
    CHECK(io::find_program(one.path, path, "/").error == EISDIR);
  }
}
