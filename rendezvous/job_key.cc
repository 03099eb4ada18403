#include "rendezvous/job_key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "launcher/base/fd.h"
#include "launcher/base/strings.h"

namespace trainrun::rendezvous {

Result<Key> parse_key(std::string_view text, std::string_view path) {
  const auto digits = trim(text);
  Key key;
  bool good = digits.size() == 2 * key.bytes.size();
  for (std::size_t i = 0; good && i < key.bytes.size(); ++i) {
    const auto* first = digits.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, key.bytes[i], 16);
    good = error == std::errc{} && end == first + 2;
  }
  if (!good)
    return fail(Code::config,
                fmt::format("the key file {} does not hold 64 hexadecimal digits", quoted(path)));
  return key;
}

Result<Key> read_key_file(const std::string& path) {
  // Without waiting for a writer, should it be a pipe.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0)
    return fail(Code::config, fmt::format("cannot read the key file {}: {}", quoted(path), errno_text(errno)),
                "the key is written by trainrun rendezvous or by the launcher");
  if (!S_ISREG(status.st_mode))
    return fail(Code::config, fmt::format("the key file {} is not a regular file", quoted(path)),
                "name a file that trainrun rendezvous wrote, or one that does not exist yet");
  if ((status.st_mode & 077) != 0)
    return fail(Code::config, fmt::format("the key file {} can be read by others", quoted(path)),
                fmt::format("chmod 600 {}", shell_quote(path)));
  std::array<char, 256> buffer;
  std::size_t size = 0;
  for (;;) {
    const auto got = ::read(file.get(), buffer.data() + size, buffer.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return fail(Code::config,
                  fmt::format("cannot read the key file {}: {}", quoted(path), errno_text(errno)));
    size += static_cast<std::size_t>(got);
    if (got == 0 || size == buffer.size()) break;  // a longer one is none
  }
  return parse_key({buffer.data(), size}, path);
}

Result<void> write_key_file(const std::string& path, const Key& key) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file)
    return fail(Code::config,
                fmt::format("cannot make the key file {}: {}", quoted(path), errno_text(errno)));
  const std::string_view bytes(reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size());
  auto written = write_all(file.get(), hex(bytes) + "\n");
  if (!written) {
    ::unlink(path.c_str());
    return fail(Code::config,
                fmt::format("cannot make the key file {}: {}", quoted(path), written.error().message));
  }
  return {};
}

}  // namespace trainrun::rendezvous
