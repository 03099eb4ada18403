#include "launcher/output/journal_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "launcher/base/strings.h"

namespace trainrun::output {

namespace {

namespace journal = core::journal;
constexpr auto option = "--journal";

// What somebody may have named by mistake is not overwritten.
Result<void> empty_it(const Fd& file, const std::string& path) {
  char begins[32];
  const auto size = ::pread(file.get(), begins, sizeof begins, 0);
  if (size < 0) return cannot_write(option, path, errno_text(errno));
  if (!journal::may_be_journal({begins, static_cast<std::size_t>(size)}))
    return cannot_write(option, path, "it exists and is not a trainrun journal");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    return cannot_write(option, path, "another job writes to it");
  if (::ftruncate(file.get(), 0) != 0) return cannot_write(option, path, errno_text(errno));
  return {};
}

bool is_directory(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::is_directory(path, unreadable);
}

bool is_special(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode);
}

}  // namespace

Result<Fd> open_journal(const std::string& target, const std::string& job_id) {
  if (const auto number = side_descriptor(target)) return take_descriptor(option, target, *number);
  if (target.ends_with('/')) {
    std::error_code failed;
    std::filesystem::create_directories(target, failed);
    if (failed) return cannot_write(option, target, failed.message());
  }
  const auto path =
      is_directory(target) ? (std::filesystem::path(target) / (job_id + ".journal")).string() : target;
  // A pipe with a name that nobody reads must not keep us waiting.
  const bool special = is_special(path);
  const int how = special ? O_WRONLY : O_RDWR | O_CREAT | O_APPEND;
  Fd file(::open(path.c_str(), how | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600));
  if (!file) return cannot_open(option, path, errno);
  if (special) return file;
  if (const auto emptied = empty_it(file, path); !emptied) return tl::unexpected(emptied.error());
  return file;
}

JournalFile::JournalFile(io::Loop& loop, Fd file, std::string name,
                         std::function<void(const std::string&)> say, std::size_t most_queued)
    : loop_(loop),
      name_(std::move(name)),
      say_(std::move(say)),
      file_(loop, std::move(file), option, name_, most_queued,
            {.say = say_, .emptied = [this] {
               const bool tell = cut_ && !std::exchange(cut_told_, true);
               return tell ? journal::record(journal::End::Why::too_slow) : std::string{};
             }}) {}

// All of a turn at once. And the thread that writes does not run yet while Begin is performed: an agent of
// this host can be a fork (decision 0006).
void JournalFile::write(const std::string& record) {
  if (cut_ || file_.dead()) return;
  if (file_.has_room(record.size())) {
    file_.queue(record);
  } else {
    cut_ = true;
    say_(fmt::format("{}: {} is too slow: the journal ends here, the job goes on", option,
                     quoted(name_, 300)));
  }
  if (std::exchange(posted_, true)) return;
  loop_.post([this] {
    posted_ = false;
    file_.pump();
  });
}

void JournalFile::begin(const journal::Header& header) {
  began_ = header.began;
  write(journal::begin(header));
}

void JournalFile::step(Instant now, const core::JobEvent& event, const core::JobActions& actions) {
  if (!cut_ && !file_.dead()) write(journal::record(now - began_, event, actions));
}

void JournalFile::close(Instant until, std::function<void()> over) {
  write(journal::record(journal::End::Why::job_over));
  file_.close(until, std::move(over));
}

}  // namespace trainrun::output
