#include "launcher/agent/job_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "launcher/agent/process_tree.h"
#include "launcher/base/fd.h"

namespace trainrun::agent {
namespace {

bool is_private(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & 077) == 0;
}

constexpr std::string_view in_memory = "/dev/shm/";

// The name in memory that belongs to a directory elsewhere: mkdtemp made it, so nobody else's has it.
std::string memory_beside(const std::string& path) {
  const auto name = path.substr(path.rfind('/') + 1);
  return path.starts_with(in_memory) || !name.starts_with("trainrun.") ? "" : std::string(in_memory) + name;
}

}  // namespace

int JobDirectory::make(const std::vector<std::string>& bases, const std::string& job_id,
                       const std::string& key) {
  key_ = key;
  int error = ENOENT;
  for (const auto& base : bases) {
    path_ = base + "/trainrun." + job_id + ".XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      error = errno;
      continue;
    }
    handover_.set_job_directory(path_);
    error = write_key();
    if (error == 0) return 0;
    remove_tree(path_);
  }
  return error;
}

int JobDirectory::write_key() const {
  const auto file = path_ + "/key";
  const Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  return fd && write_all(fd.get(), key_) ? 0 : errno;
}

void JobDirectory::add_memory() {
  const auto beside = memory_beside(path_);
  memory_ = beside.empty() ? path_ : ::mkdir(beside.c_str(), 0700) == 0 ? beside : "";
}

void remove_job_directory(const std::string& path) {
  remove_tree(path);
  const auto beside = memory_beside(path);
  if (!beside.empty() && is_private(beside)) remove_tree(beside);
}

int JobDirectory::restore() const {
  if (!memory_.empty() && memory_ != path_) ::mkdir(memory_.c_str(), 0700);
  if (path_.empty() || ::access((path_ + "/key").c_str(), F_OK) == 0) return 0;
  if (::mkdir(path_.c_str(), 0700) == 0 || (errno == EEXIST && is_private(path_))) return write_key();
  return errno;
}

std::vector<std::string> places_for_job_directory(const std::string& jobs_tmpdir,
                                                  const std::string& own_tmpdir) {
  std::vector<std::string> places{"/dev/shm", "/tmp"};
  for (const auto& named : {jobs_tmpdir, own_tmpdir}) {
    if (!named.starts_with('/')) continue;
    places.insert(places.begin(), named);  // a batch system's may be there on the first host alone
    break;
  }
  return places;
}

std::vector<std::string> places_of_other_jobs(std::vector<std::string> places, const std::string& made) {
  if (!places.empty() && !made.starts_with(places.back() + "/")) places.pop_back();
  return places;
}

}  // namespace trainrun::agent
