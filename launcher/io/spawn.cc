#include "launcher/io/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "launcher/base/open_files.h"
#include "launcher/base/strings.h"

namespace trainrun::io {
namespace {

constexpr std::size_t child_stack = 64u << 10;

// All that the child touches. It may not allocate, lock or return: it shares our memory.
#ifdef __SANITIZE_THREAD__
constexpr int share_memory = 0;  // a child in the memory of ThreadSanitizer makes it lose track of locks
#else
constexpr int share_memory = CLONE_VM;
#endif

struct ChildArguments {
  const char* path;
  char* const* argv;
  char* const* shell_argv;  // for a script without `#!`: /bin/sh path args...
  char* const* envp;
  const char* directory;
  const cpu_set_t* cpus;
  std::size_t cpus_size;
  bool batch;
  std::array<int, 4> fds;  // -1: none
  pid_t parent;
  const int* not_default;  // signals with a disposition of ours
  const int* not_default_end;
  bool keep_hangup_ignored;
  const rlimit* open_files;  // null: as we are
  SpawnStage stage;          // out
  int error;                 // out
};

[[noreturn]] void give_up(ChildArguments* a, SpawnStage stage) {
  a->stage = stage;
  a->error = errno;
  ::_exit(127);
}

bool close_range_of(unsigned first, unsigned last) {
  return ::syscall(SYS_close_range, first, last, 0U) == 0 || errno == ENOSYS;
}

#if defined(__SANITIZE_ADDRESS__)
#define TRAINRUN_IN_CHILD __attribute__((no_sanitize_address))
#elif defined(__SANITIZE_THREAD__)
#define TRAINRUN_IN_CHILD __attribute__((no_sanitize_thread))
#else
#define TRAINRUN_IN_CHILD
#endif

// A shell would take the bytes of a program for another machine for words. errno stays.
TRAINRUN_IN_CHILD bool is_text(const char* path) {
  const int error = errno;
  char first[128];
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  const auto got = fd < 0 ? -1 : ::read(fd, first, sizeof first);
  bool text = got >= 0;
  for (ssize_t i = 0; i < got && first[i] != '\n'; ++i) text = text && first[i] != '\0';
  errno = error;
  return text;
}

TRAINRUN_IN_CHILD int child_main(void* raw) {
  auto* a = static_cast<ChildArguments*>(raw);
  // The parent blocked all signals. Dispositions first: a handler of ours must never run in here.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (const int* number = a->not_default; number != a->not_default_end; ++number) {
    if (*number != SIGHUP || !a->keep_hangup_ignored) ::sigaction(*number, &action, nullptr);
  }
  if (::setsid() < 0) give_up(a, SpawnStage::session);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(a, SpawnStage::session);
  if (::getppid() != a->parent) ::_exit(127);  // we lost the race against our parent's death
  // Targets that are also sources of others would be overwritten: move sources out of the way first.
  for (auto& fd : a->fds) {
    if (fd >= 0 && (fd < 3 || fd == spawn_fourth)) {
      fd = ::fcntl(fd, F_DUPFD, spawn_fourth + 1);
      if (fd < 0 && errno == EINVAL) errno = EMFILE;  // the limit on open files lies below that number
      if (fd < 0) give_up(a, SpawnStage::files);
    }
  }
  constexpr int targets[] = {0, 1, 2, spawn_fourth};
  const bool has_fourth = a->fds[3] >= 0;
  for (std::size_t i = 0; i < (has_fourth ? 4 : 3); ++i) {
    if (::dup2(a->fds[i], targets[i]) >= 0) continue;
    if (errno == EBADF && a->fds[i] >= 0) errno = EMFILE;  // it is open: the number is beyond the limit
    give_up(a, SpawnStage::files);
  }
  if ((has_fourth && !close_range_of(3, spawn_fourth - 1)) ||
      !close_range_of(has_fourth ? spawn_fourth + 1 : 3, ~0U))
    give_up(a, SpawnStage::files);
  if (a->open_files != nullptr) ::setrlimit(RLIMIT_NOFILE, a->open_files);
  if (::chdir(a->directory) != 0) give_up(a, SpawnStage::directory);
  if (a->cpus != nullptr && ::sched_setaffinity(0, a->cpus_size, a->cpus) != 0)
    give_up(a, SpawnStage::affinity);
  if (a->batch && ::sched_getscheduler(0) == SCHED_OTHER) {
    const sched_param usual{};
    ::sched_setscheduler(0, SCHED_BATCH, &usual);  // a container may forbid it: then it is slower
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(a->path, a->argv, a->envp);
  if (errno == ENOEXEC && is_text(a->path)) ::execve("/bin/sh", a->shell_argv, a->envp);
  give_up(a, SpawnStage::exec);
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (const auto& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

// One stack for all spawns: the parent waits until the child has left it.
void* stack_top() {
  static void* const stack =
      ::mmap(nullptr, child_stack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  return stack == MAP_FAILED ? nullptr : static_cast<char*>(stack) + child_stack;
}

}  // namespace

// Asked by the parent rather than set blindly in the child: the parent waits for the child, and a question
// costs less than an order.
std::vector<int> signals_not_default() {
  std::vector<int> numbers;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_DFL) numbers.push_back(number);
  }
  return numbers;
}

std::vector<const char*> as_words(const std::vector<std::string>& words) {
  std::vector<const char*> out;
  out.reserve(words.size());
  for (const auto& word : words) out.push_back(word.c_str());
  return out;
}

Spawned spawn(const SpawnRequest& request) {
  const auto argv = pointers(request.argv);
  std::vector<char*> envp;
  envp.reserve(request.env.size() + 1);
  for (const auto* word : request.env) envp.push_back(const_cast<char*>(word));
  envp.push_back(nullptr);
  std::vector<std::string> shell_words{"/bin/sh", request.path};
  if (request.argv.size() > 1)
    shell_words.insert(shell_words.end(), request.argv.begin() + 1, request.argv.end());
  const auto shell_argv = pointers(shell_words);

  const auto not_default = request.not_default != nullptr ? *request.not_default : signals_not_default();
  std::vector<unsigned long> mask;
  if (!request.cpus.empty()) {
    constexpr std::size_t bits = 8 * sizeof(unsigned long);
    for (const auto cpu : request.cpus) {
      if (mask.size() <= cpu / bits) mask.resize(cpu / bits + 1);
      mask[cpu / bits] |= 1UL << (cpu % bits);
    }
  }
  const auto open_files = open_files_given();
  ChildArguments arguments{request.path.c_str(),
                           argv.data(),
                           shell_argv.data(),
                           envp.data(),
                           request.directory.c_str(),
                           mask.empty() ? nullptr : reinterpret_cast<const cpu_set_t*>(mask.data()),
                           mask.size() * sizeof(unsigned long),
                           request.batch,
                           {request.stdin_fd, request.stdout_fd, request.stderr_fd, request.fourth_fd},
                           ::getpid(),
                           not_default.data(),
                           not_default.data() + not_default.size(),
                           request.keep_hangup_ignored,
                           open_files ? &*open_files : nullptr,
                           SpawnStage::none,
                           0};
  sigset_t all, before;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);
  void* const stack = stack_top();
  const pid_t pid =
      stack == nullptr ? -1 : ::clone(child_main, stack, share_memory | CLONE_VFORK | SIGCHLD, &arguments);
  const int clone_error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);

  Spawned spawned;
  if (pid < 0) {
    spawned.stage = SpawnStage::fork;
    spawned.error = clone_error;
    return spawned;
  }
  if (arguments.stage != SpawnStage::none) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    spawned.stage = arguments.stage;
    spawned.error = arguments.error;
    return spawned;
  }
  spawned.pid = pid;
  return spawned;
}

Found find_program(const std::string& name, const std::string& search_path, const std::string& directory) {
  const auto absolute = [&directory](std::string path) {
    return path.starts_with('/') ? path : directory + "/" + path;
  };
  const auto problem_of = [](const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return errno;
    if (S_ISDIR(info.st_mode)) return EISDIR;
    return ::access(path.c_str(), X_OK) == 0 ? 0 : EACCES;
  };
  if (name.empty()) return {{}, ENOENT};
  if (name.find('/') != std::string::npos) {
    const auto path = absolute(name);
    return {path, problem_of(path)};
  }
  Found best{{}, ENOENT};
  for (const auto part : split(search_path, ':')) {
    auto path = absolute(part.empty() ? name : std::string(part) + "/" + name);
    const int error = problem_of(path);
    if (error == 0) return {path, 0};
    if (error == EACCES && best.error == ENOENT) best = {path, EACCES};
  }
  return best;
}

}  // namespace trainrun::io
