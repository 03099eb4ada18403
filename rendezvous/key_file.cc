#include "rendezvous/key_file.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "launcher/base/strings.h"
#include "rendezvous/job_key.h"

namespace trainrun::rendezvous {

Result<KeyFile> KeyFile::open(const std::string& wanted, const std::string& temporary) {
  KeyFile file;
  if (wanted.empty()) {
    auto directory = temporary + "/trainrun-XXXXXX";
    if (::mkdtemp(directory.data()) == nullptr)
      return fail(Code::try_again, fmt::format("cannot make a directory for the key in {}: {}",
                                               quoted(temporary, 200), errno_text(errno)));
    file.directory_ = directory;
    file.path_ = directory + "/key";
  } else {
    std::error_code error;  // members run in other directories than ours
    file.path_ = std::filesystem::absolute(wanted, error).string();
    if (error)
      return fail(Code::config,
                  fmt::format("cannot find the key file {}: {}", quoted(wanted, 200), error.message()));
    if (::access(file.path_.c_str(), F_OK) == 0) {
      auto key = read_key_file(wanted);
      if (!key) return tl::unexpected(key.error());
      file.key_ = *key;
      return file;
    }
  }
  file.key_ = random_key();
  if (const auto written = write_key_file(file.path_, file.key_); !written)
    return tl::unexpected(written.error());
  file.made_ = true;
  return file;
}

KeyFile::KeyFile(KeyFile&& other) noexcept
    : path_(std::move(other.path_)),
      directory_(std::exchange(other.directory_, {})),
      made_(std::exchange(other.made_, false)),
      key_(other.key_) {}

KeyFile::~KeyFile() {
  if (made_) ::unlink(path_.c_str());
  if (!directory_.empty()) ::rmdir(directory_.c_str());
}

}  // namespace trainrun::rendezvous
