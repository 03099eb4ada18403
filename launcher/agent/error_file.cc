#include "launcher/agent/error_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/base/fd.h"

namespace trainrun::agent {

std::string read_error_file(const std::string& path) {
  if (path.empty()) return {};
  const Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  if (info.st_size > static_cast<off_t>(longest_error_file)) return {};
  std::string text(longest_error_file + 1, '\0');
  std::size_t size = 0;
  for (ssize_t n = 1; n > 0 && size < text.size(); size += static_cast<std::size_t>(n)) {
    n = ::read(file.get(), text.data() + size, text.size() - size);
    if (n < 0) return {};
  }
  text.resize(size <= longest_error_file ? size : 0);  // somebody still writes to it
  return text;
}

}  // namespace trainrun::agent
