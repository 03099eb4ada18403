#include "launcher/transport/local_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <string>

#include "launcher/base/open_files.h"
#include "launcher/base/strings.h"
#include "launcher/transport/agent_image.h"

namespace trainrun::transport {
namespace {

constexpr unsigned executable = 0x10;  // MFD_EXEC, which kernels before 6.3 refuse, and those after it want
constexpr int link_number = 3;

Fd file_in_memory() {
  const int fd = ::memfd_create("trainrun-agent", MFD_CLOEXEC | executable);
  return Fd(fd >= 0 || errno != EINVAL ? fd : ::memfd_create("trainrun-agent", MFD_CLOEXEC));
}

// The pid, or an errno. The link gets a number of its own, above which it may lie already: dup2 to itself
// would leave it closed on exec.
tl::expected<pid_t, int> spawn_program(const std::string& path, const Fd& link, char* const* words) {
  const Fd other(::fcntl(link.get(), F_DUPFD_CLOEXEC, link_number + 1));
  if (!other) return tl::unexpected(errno);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (const int error = ::posix_spawn_file_actions_init(&actions); error != 0) return tl::unexpected(error);
  ::posix_spawnattr_init(&attributes);
  // As in a fork: the watcher blocks all signals from its first moment on, the agent sets its own mask.
  sigset_t all;
  sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  int error = ::posix_spawn_file_actions_adddup2(&actions, other.get(), link_number);
  pid_t pid = -1;
  if (error == 0) error = ::posix_spawn(&pid, path.c_str(), &actions, &attributes, words, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) return tl::unexpected(error);
  return pid;
}

}  // namespace

bool has_one_thread() {
  struct stat tasks {};
  // Two links of every directory, and one for each thread.
  return ::stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3;
}

Result<int> execute_agent(Fd link) {
  const auto failed = [](int error) {
    return fail(Code::try_again, "cannot start an agent from memory: " + errno_text(error),
                "see `ulimit -u`, the memory left, and `sysctl vm.memfd_noexec`");
  };
  const auto& image = agent_image();
  const auto file = file_in_memory();
  if (!file || !write_all(file.get(), image.bytes)) return failed(errno);
  const auto given = open_files_given();
  std::string words[] = {"trainrun-agent", "--link", std::to_string(link_number),
                         std::to_string(image.bytes.size()),
                         given ? std::to_string(given->rlim_cur) : std::string("unchanged")};
  char* const pointers[] = {words[0].data(), words[1].data(), words[2].data(),
                            words[3].data(), words[4].data(), nullptr};
  const auto pid = spawn_program(fmt::format("/proc/self/fd/{}", file.get()), link, pointers);
  if (!pid) return failed(pid.error());
  return *pid;
}

}  // namespace trainrun::transport
