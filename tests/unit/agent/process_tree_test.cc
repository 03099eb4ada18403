#include "launcher/agent/process_tree.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "launcher/base/fd.h"

using namespace trainrun;
namespace fs = std::filesystem;

namespace {

// A child whose child left it for a session of its own, as daemons do; both wait for a signal.
struct Family {
  pid_t child = -1, daemon = -1;
};

Family make_family(bool child_stays) {
  auto pipe = make_pipe();
  REQUIRE(pipe);
  Family family;
  family.child = ::fork();
  REQUIRE(family.child >= 0);
  if (family.child == 0) {
    if (::fork() == 0) {
      ::setsid();
      const pid_t self = ::getpid();
      [[maybe_unused]] const auto n = ::write(pipe->second.get(), &self, sizeof self);
      for (;;) ::pause();
    }
    if (!child_stays) ::_exit(0);
    for (;;) ::pause();
  }
  REQUIRE(::read(pipe->first.get(), &family.daemon, sizeof family.daemon) == sizeof family.daemon);
  return family;
}

bool holds(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

}  // namespace

TEST_SUITE("process_tree") {
  TEST_CASE("children, grandchildren and daemons of a subreaper are all found and ended") {
    REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    CHECK(agent::no_children_left());
    const auto family = make_family(true), left = make_family(false);
    REQUIRE(::waitpid(left.child, nullptr, 0) == left.child);  // its daemon is ours from here on
    const auto all = agent::descendants(::getpid());
    CHECK(all.size() == 3);
    for (const auto pid : {family.child, family.daemon, left.daemon}) CHECK(holds(all, pid));
    CHECK(agent::descendants(family.child) == std::vector<pid_t>{family.daemon});
    CHECK_FALSE(agent::no_children_left());
    CHECK(agent::signal_descendants(SIGKILL) == 3);
    for (int reaped = 0; reaped < 3; ++reaped) CHECK(::waitpid(-1, nullptr, 0) > 0);
    CHECK(agent::no_children_left());
    CHECK(agent::descendants(::getpid()).empty());
    CHECK(agent::signal_descendants(SIGKILL) == 0);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  TEST_CASE("a zombie counts as left until it is reaped") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) ::_exit(0);
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
    CHECK_FALSE(agent::no_children_left());
    ::waitpid(child, nullptr, 0);
    CHECK(agent::no_children_left());
  }

  TEST_CASE("a tree is removed, and nothing that its links point to") {
    std::string base = "/tmp/tree_test.XXXXXX";
    REQUIRE(::mkdtemp(base.data()) != nullptr);
    const fs::path root(base), job = root / "job", outside = root / "outside";
    fs::create_directories(job / "a" / "b");
    fs::create_directories(outside);
    std::ofstream(outside / "keep") << "kept";
    std::ofstream(job / "a" / "b" / "file") << "x";
    fs::create_directory_symlink(outside, job / "a" / "link");
    fs::create_symlink(outside / "keep", job / "file_link");
    agent::remove_tree(job);
    CHECK_FALSE(fs::exists(job));
    CHECK(fs::exists(outside / "keep"));
    fs::create_directory_symlink(outside, root / "job_link");
    agent::remove_tree(root / "job_link");  // the link goes, its target stays
    CHECK_FALSE(fs::is_symlink(root / "job_link"));
    CHECK(fs::exists(outside / "keep"));
    agent::remove_tree("");
    agent::remove_tree(root / "never_was");
    fs::remove_all(root);
  }

  TEST_CASE("a tree deeper than any of ours is left, not followed without end") {
    std::string base = "/tmp/tree_test.XXXXXX";
    REQUIRE(::mkdtemp(base.data()) != nullptr);
    fs::path deep(base);
    for (int i = 0; i < 12; ++i) deep /= "d";
    fs::create_directories(deep);
    agent::remove_tree(base);
    CHECK(fs::exists(deep));
    fs::remove_all(base);
  }
}
