#include "launcher/agent/stack_tool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string_view>
#include <utility>
#include <vector>

#include "launcher/agent/process_stat.h"
#include "launcher/io/spawn.h"

namespace trainrun::agent {
namespace {

constexpr Duration time_limit = seconds(5), dying_time = seconds(1);
constexpr off_t output_limit = 48 << 10;

bool is_python(pid_t pid) {
  char target[PATH_MAX];
  const ssize_t n = ::readlink(fmt::format("/proc/{}/exe", pid).c_str(), target, sizeof target);
  const std::string_view path(target, n > 0 ? static_cast<std::size_t>(n) : 0);
  return path.substr(path.rfind('/') + 1).starts_with("python");
}

// A file in memory that cannot grow: nobody has to read while the program runs, and it cannot write too much.
Fd bounded_file() {
  Fd file(::memfd_create("stack", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), output_limit) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0)
    file.reset();
  return file;
}

}  // namespace

StackTool::StackTool(io::Loop& loop, std::string name, pid_t target, std::function<void(std::string)> done)
    : name_(std::move(name)), target_(target), done_(std::move(done)), limit_(loop) {}

StackTool::~StackTool() {
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

std::unique_ptr<StackTool> StackTool::start(io::Loop& loop, const std::string& search_path, pid_t target,
                                            std::function<void(std::string)> done) {
  const auto stat = process_stat(target);
  // One that is stopped, or waits in the kernel, tells by that why it does not go on; gdb would wait for it.
  if (!stat || (stat->state != 'R' && stat->state != 'S')) return nullptr;
  const auto number = std::to_string(target);
  io::SpawnRequest request;
  const auto find = [&](const char* name) {
    const auto found = io::find_program(name, search_path, "/");
    if (found.error == 0) request.path = found.path;
    return found.error == 0;
  };
  if (is_python(target) && find("py-spy")) {
    request.argv = {"py-spy", "dump", "--nonblocking", "--pid", number};
  } else if (find("gdb")) {
    request.argv = {
        "gdb", "-nx", "-batch", "-iex", "set auto-load no", "-p", number, "-ex", "thread apply all bt 20"};
  } else {
    return nullptr;
  }
  std::unique_ptr<StackTool> tool(new StackTool(loop, request.argv.front(), target, std::move(done)));
  tool->target_started_ = stat->started;
  tool->output_ = bounded_file();
  const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!tool->output_ || !null) return nullptr;
  const std::vector<std::string> env{"PATH=" + search_path, "HOME=/", "LC_ALL=C.UTF-8", "TERM=dumb"};
  request.env = io::as_words(env);
  request.directory = "/";
  request.stdin_fd = null.get();
  request.stdout_fd = request.stderr_fd = tool->output_.get();
  tool->pid_ = io::spawn(request).pid;
  if (tool->pid_ < 0) return nullptr;
  tool->limit_.arm(io::Loop::now() + time_limit, [raw = tool.get()] { raw->give_up(); });
  return tool;
}

void StackTool::give_up() {
  killed_ = true;
  ::kill(-pid_, SIGKILL);
  limit_.arm(io::Loop::now() + dying_time, [this] { finish(); });  // it hangs in the kernel: do not wait
}

void StackTool::ended() {
  ::kill(-pid_, SIGKILL);
  pid_ = -1;
  const auto stat = process_stat(target_);
  if (killed_ && stat && stat->started == target_started_) ::kill(target_, SIGCONT);
  finish();
}

void StackTool::finish() {
  limit_.disarm();
  const auto size = ::lseek(output_.get(), 0, SEEK_CUR);  // the program's writes moved this offset
  std::string text(static_cast<std::size_t>(size > 0 ? size : 0), '\0');
  const auto n = ::pread(output_.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(n > 0 ? n : 0));
  text.insert(0, fmt::format("{} on process {}{}:\n", name_, target_, killed_ ? ", ended after 5 s" : ""));
  const auto done = std::exchange(done_, nullptr);
  if (done) done(std::move(text));
}

}  // namespace trainrun::agent
