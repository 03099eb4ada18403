#include "launcher/output/log_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "launcher/base/strings.h"

namespace trainrun::output {
namespace {

constexpr std::size_t id_digits = 8;  // of the job's number: two jobs of one second need other names

tl::unexpected<Error> refuse(const std::string& path, int error) {
  return fail(Code::config,
              fmt::format("output cannot be kept in {}: {}", quoted(path, 300), errno_text(error)),
              std::string(advice_on_log_files(error)));
}

std::string name_of_job(const std::string& id) {
  const std::time_t now = std::time(nullptr);
  tm at{};
  ::localtime_r(&now, &at);
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}-{}", at.tm_year + 1900, at.tm_mon + 1, at.tm_mday,
                     at.tm_hour, at.tm_min, at.tm_sec, std::string_view(id).substr(0, id_digits));
}

bool is_directory(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::is_directory(path, unreadable);
}

// In one step, so that nobody sees a moment without it. What is no link is the user's, and stays. Where the
// file system has no links there is none. Gives what the user must know.
std::string point_latest_at(const std::string& directory, const std::string& name) {
  const auto latest = directory + "/latest";
  struct stat status {};
  if (::lstat(latest.c_str(), &status) == 0 && !S_ISLNK(status.st_mode))
    return fmt::format(
        "--output-filename: {} is no symbolic link and stays as it is; this job's files are in {}",
        quoted(latest, 300), quoted(directory + "/" + name, 300));
  const auto fresh = fmt::format("{}/.latest.{}", directory, name);
  if (::symlink(name.c_str(), fresh.c_str()) != 0) return {};
  if (::rename(fresh.c_str(), latest.c_str()) != 0) ::unlink(fresh.c_str());
  return {};
}

}  // namespace

std::string_view advice_on_log_files(int error) {
  switch (error) {
    case EMFILE:
      return "each rank needs two open files: raise the limit, as far as ulimit -Hn allows, by ulimit -n";
    case ENFILE:
      return "the whole host has too many open files: each rank needs two, see sysctl fs.file-max";
    case ENOSPC:
      return "make room there, or give --output-filename, or --log-dir, a directory elsewhere";
    case EDQUOT:
      return "your quota there is used up: make room, or give --output-filename, or --log-dir, a directory "
             "elsewhere";
    default:
      return "give --output-filename, or --log-dir, a directory that you may write to";
  }
}

LogFiles::LogFiles(FileThreads& threads, Failed failed) : threads_(threads), failed_(std::move(failed)) {}

bool LogFiles::make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0) return false;
  made_.push_back(path);
  return true;
}

bool LogFiles::make_all(const std::string& path) {
  for (auto end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const auto part = path.substr(0, end);
    if (!make_directory(part)) {
      const int error = errno;
      if (!is_directory(part)) {
        errno = error == EEXIST ? ENOTDIR : error;
        return false;
      }
    }
    if (end == std::string::npos) return true;
  }
}

Result<void> LogFiles::open(const std::string& directory, const std::string& job_id, int ranks) {
  directory_ = directory;
  name_ = name_of_job(job_id);
  place_ = directory + "/" + name_;
  const auto stop = [this](const std::string& path) {
    auto error = refuse(path, errno);
    remove_made();
    return error;
  };
  if (!make_all(directory) || !make_directory(place_)) return stop(directory);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto folder = fmt::format("{}/rank.{}", place_, rank);
    if (!make_directory(folder)) return stop(folder);
    for (const auto stream : {wire::Output::out, wire::Output::err}) {
      auto path = folder + (stream == wire::Output::out ? "/stdout" : "/stderr");
      Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
      if (!fd) return stop(path);
      made_.push_back(path);
      files_[{static_cast<std::uint32_t>(rank), stream}] =
          threads_.add(std::move(fd), path, [this, path](int error) { failed_(path, error); });
    }
  }
  return {};
}

void LogFiles::ranks_start() {
  if (!are_open() || std::exchange(in_use_, true)) return;
  FileThreads::later(files_.begin()->second,
                     [directory = directory_, name = name_] { return point_latest_at(directory, name); });
}

void LogFiles::write(Rank rank, wire::Output stream, std::string_view bytes) {
  if (const auto it = files_.find({rank.value, stream}); it != files_.end())
    FileThreads::write(it->second, bytes);
}

std::string LogFiles::keep_stack(Rank rank, const std::string& stack) {
  auto path = fmt::format("{}/rank.{}/stack", place_, rank.value);
  FileThreads::later(files_.begin()->second, [path, stack] {
    const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (fd)
      static_cast<void>(
          write_all(fd.get(), stack + "\n"));  // evidence alone: without it the job goes on as well
    return std::string{};
  });
  return path;
}

void LogFiles::remove_made() {
  files_.clear();
  for (auto it = made_.rbegin(); it != made_.rend(); ++it) std::remove(it->c_str());
  made_.clear();
  place_.clear();
}

void LogFiles::close() {
  if (are_open() && !in_use_) remove_made();
}

// mkdir alone knows, but a look may leave nothing behind.
Result<void> may_make_log_files(const std::string& directory) {
  auto there = directory;
  struct stat status {};
  while (::stat(there.c_str(), &status) != 0) {
    if (errno != ENOENT || there.find_last_of('/') == std::string::npos) return refuse(directory, errno);
    there.resize(std::max<std::size_t>(there.find_last_of('/'), 1));
  }
  if (!S_ISDIR(status.st_mode)) return refuse(directory, ENOTDIR);
  if (::faccessat(AT_FDCWD, there.c_str(), W_OK | X_OK, AT_EACCESS) != 0) return refuse(directory, errno);
  // Root may write anywhere, says the kernel, and yet makes no directory there.
  struct statfs system {};
  if (::statfs(there.c_str(), &system) != 0) return refuse(directory, errno);
  if (system.f_type == PROC_SUPER_MAGIC) return refuse(directory, ENOENT);
  if (system.f_type == SYSFS_MAGIC) return refuse(directory, EPERM);
  return {};
}

}  // namespace trainrun::output
