#include "launcher/output/events_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "launcher/base/strings.h"
#include "launcher/output/event_line.h"

namespace trainrun::output {
namespace {

constexpr std::string_view by_number = "fd:";

tl::unexpected<Error> refuse(const std::string& target, int error) {
  return fail(Code::config, fmt::format("--events: cannot write to {}: {}; the job goes on without it",
                                        quoted(target, 300), errno_text(error)));
}

}  // namespace

std::optional<int> events_descriptor(const std::string& target) {
  if (!target.starts_with(by_number)) return std::nullopt;
  const auto number = parse_unsigned<std::uint16_t>(std::string_view(target).substr(by_number.size()));
  return number ? std::optional<int>(*number) : std::nullopt;
}

Result<Fd> open_events(const std::string& target) {
  if (const auto number = events_descriptor(target)) {
    const int flags = ::fcntl(*number, F_GETFL);
    if (flags < 0) return refuse(target, errno);
    if ((flags & O_ACCMODE) == O_RDONLY) return refuse(target, EBADF);
    ::fcntl(*number, F_SETFD, FD_CLOEXEC);
    return Fd(*number);
  }
  // A pipe with a name that nobody reads must not keep us waiting.
  Fd file(::open(target.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666));
  if (!file) return refuse(target, errno);
  return file;
}

EventsFile::EventsFile(io::Loop& loop, Fd file, std::string name, std::function<void(const std::string&)> say,
                       std::size_t most_queued)
    : file_(std::move(file)),
      name_(std::move(name)),
      say_(std::move(say)),
      most_queued_(most_queued),
      files_(loop, {.moved = [this] { pump(); }}),
      writer_(loop, files_, file_.get(), name_,
              {.drained = [] {},
               .closed = [this] { failed(EPIPE); },
               .full = [this](int error) { failed(error); },
               .moved = [this] { pump(); }}),
      limit_(loop) {}

bool EventsFile::writing() const { return writer_.backlog() + files_.backlog() > 0; }

void EventsFile::failed(int error) {
  if (std::exchange(dead_, true)) return;
  queue_.clear();
  say_(fmt::format("--events: {} takes no more: {}; the job goes on without it", quoted(name_, 300),
                   errno_text(error)));
  pump();
}

void EventsFile::write(const std::string& line) {
  if (dead_) return;
  const auto gap = dropped_ > 0 ? dropped_line(dropped_) : std::string{};
  if (queue_.size() + gap.size() + line.size() > most_queued_) {
    ++dropped_;
    return;
  }
  dropped_ = 0;
  queue_ += gap + line;
  pump();
}

// One piece after the other: what a file does not take then has no successor in its queue.
void EventsFile::pump() {
  if (!dead_ && !writing()) {
    if (queue_.empty() && dropped_ > 0) queue_ = dropped_line(std::exchange(dropped_, 0));
    if (!queue_.empty()) writer_.write(std::exchange(queue_, {}));
  }
  if (over_ && (dead_ || (queue_.empty() && !writing()))) {
    limit_.disarm();
    std::exchange(over_, nullptr)();
  }
}

void EventsFile::close(Instant until, std::function<void()> over) {
  over_ = std::move(over);
  end_by(until);
  pump();
}

void EventsFile::end_by(Instant until) {
  if (!over_) return;
  limit_.arm(until, [this] {
    if (!std::exchange(dead_, true))
      say_(fmt::format("--events: {} did not take the last lines in time", quoted(name_, 300)));
    pump();
  });
}

}  // namespace trainrun::output
