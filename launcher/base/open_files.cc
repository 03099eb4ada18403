#include "launcher/base/open_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

namespace trainrun {
namespace {

std::optional<rlimit> given;

}  // namespace

void raise_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  auto raised = limit;
  raised.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) given = limit;
}

std::optional<rlimit> open_files_given() { return given; }

std::string open_files_hint(int error) {
  if (error == ENFILE) return "the whole machine has no more files to open: see /proc/sys/fs/file-nr";
  rlimit limit{};
  if (error != EMFILE || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  return fmt::format(
      "this process may have {} files open, and a launcher needs five a host, an agent five a rank, each "
      "twenty besides: raise the hard limit (ulimit -Hn)",
      limit.rlim_cur);
}

Error no_more_to_wait_with(int error) {
  auto hint = open_files_hint(error);
  if (error == ENOSPC) hint = "this user watches too many files: see /proc/sys/fs/epoll/max_user_watches";
  return {Code::try_again, "the kernel gives this process no more event descriptors: " + errno_text(error),
          std::move(hint)};
}

}  // namespace trainrun
