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
#include "launcher/agent/stack_text.h"
#include "launcher/io/spawn.h"

namespace trainrun::agent {
namespace {

constexpr Duration time_limit = seconds(5);
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

StackTool::StackTool(std::string name, pid_t target, std::function<void(std::string)> done)
    : name_(std::move(name)), target_(target), done_(std::move(done)) {}
StackTool::~StackTool() = default;

std::unique_ptr<StackTool> StackTool::start(io::Loop& loop, const std::string& search_path, pid_t target,
                                            std::function<void(std::string)> done) {
  const auto stat = process_stat(target);
  // One that is stopped, or waits in the kernel, tells by that why it does not go on; gdb would wait for it.
  if (!stat || (stat->state != 'R' && stat->state != 'S')) return nullptr;
  const auto number = std::to_string(target);
  io::ChildRequest request;
  const auto find = [&](const char* name) {
    const auto found = io::find_program(name, search_path, "/");
    if (found.error == 0) request.path = found.path;
    return found.error == 0;
  };
  const bool python = is_python(target);
  if (python && find("py-spy")) {
    request.argv = {"py-spy", "dump", "--nonblocking", "--pid", number};
  } else if (find("gdb")) {
    request.argv = {"gdb", "-nx", "-batch", "-iex", "set auto-load no", "-p", number};
    // To read the symbols of a framework takes longer than there is time, and then there would be no frame.
    if (python)
      for (const char* word : {"-iex", "set auto-solib-add off", "-ex", "sharedlibrary libc\\.so|libpython"})
        request.argv.emplace_back(word);
    request.argv.insert(request.argv.end(), {"-ex", "thread apply all -ascending bt 20"});
  } else {
    return nullptr;
  }
  std::unique_ptr<StackTool> tool(new StackTool(request.argv.front(), target, std::move(done)));
  tool->target_started_ = stat->started;
  tool->output_ = bounded_file();
  if (!tool->output_) return nullptr;
  request.env = {"PATH=" + search_path, "HOME=/", "LC_ALL=C.UTF-8", "TERM=dumb"};
  request.directory = "/";
  request.out.fd = request.err.fd = tool->output_.get();
  request.limit = time_limit;
  request.farewell = Duration::zero();  // the agent reaps whatever is left
  auto child =
      io::Child::start(loop, request, {[raw = tool.get()](const io::ChildEnd& end) { raw->ended(end); }});
  if (!child) return nullptr;
  tool->child_ = std::move(*child);
  return tool;
}

void StackTool::ended(const io::ChildEnd& end) {
  const bool late = end.by == io::ChildEnd::By::limit;
  const auto stat = process_stat(target_);
  if (late && end.status && stat && stat->started == target_started_) ::kill(target_, SIGCONT);
  const auto size = ::lseek(output_.get(), 0, SEEK_CUR);  // the program's writes moved this offset
  std::string text(static_cast<std::size_t>(size > 0 ? size : 0), '\0');
  const auto n = ::pread(output_.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(n > 0 ? n : 0));
  const bool gdb = name_ == "gdb";
  text = gdb ? frames_of_gdb(text) : frames_of_py_spy(text);
  text.insert(0, fmt::format("{} on process {}{}{}:\n", name_, target_, late ? ", ended after 5 s" : "",
                             gdb && is_python(target_) ? " (py-spy would show the lines of Python)" : ""));
  const auto done = std::exchange(done_, nullptr);
  if (done) done(std::move(text));
}

}  // namespace trainrun::agent
