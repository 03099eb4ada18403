#include "launcher/output/side_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "launcher/base/strings.h"

namespace trainrun::output {

namespace {
constexpr std::string_view by_number = "fd:";
}

tl::unexpected<Error> cannot_write(std::string_view option, const std::string& target,
                                   const std::string& why) {
  return fail(Code::config, fmt::format("{}: cannot write to {}: {}; the job goes on without it", option,
                                        quoted(target, 300), why));
}

tl::unexpected<Error> cannot_open(std::string_view option, const std::string& target, int error) {
  return cannot_write(option, target, error == ENXIO ? "nobody reads that pipe" : errno_text(error));
}

std::optional<int> side_descriptor(const std::string& target) {
  if (!target.starts_with(by_number)) return std::nullopt;
  const auto number = parse_unsigned<std::uint16_t>(std::string_view(target).substr(by_number.size()));
  return number ? std::optional<int>(*number) : std::nullopt;
}

Result<Fd> take_descriptor(std::string_view option, const std::string& target, int number) {
  const int flags = ::fcntl(number, F_GETFL);
  if (flags < 0) return cannot_write(option, target, errno_text(errno));
  if ((flags & O_ACCMODE) == O_RDONLY) return cannot_write(option, target, errno_text(EBADF));
  ::fcntl(number, F_SETFD, FD_CLOEXEC);
  return Fd(number);
}

SideFile::SideFile(io::Loop& loop, Fd file, std::string option, std::string name, std::size_t most_queued,
                   Handlers handlers)
    : file_(std::move(file)),
      option_(std::move(option)),
      name_(std::move(name)),
      most_queued_(most_queued),
      handlers_(std::move(handlers)),
      files_(loop, {.moved = [this] { pump(); }}),
      writer_(loop, files_, file_.get(), name_,
              {.drained = [] {},
               .closed = [this] { failed(EPIPE); },
               .full = [this](int error) { failed(error); },
               .moved = [this] { pump(); }}),
      limit_(loop) {}

bool SideFile::writing() const { return writer_.backlog() + files_.backlog() > 0; }

void SideFile::failed(int error) {
  if (std::exchange(dead_, true)) return;
  queue_.clear();
  handlers_.say(fmt::format("{}: {} cannot be written: {}; the job goes on without it", option_,
                            quoted(name_, 300), errno_text(error)));
  pump();
}

void SideFile::queue(std::string_view bytes) {
  if (!dead_) queue_ += bytes;
}

// One piece after the other: what a file does not take then has no successor in its queue.
void SideFile::pump() {
  if (!dead_ && !writing()) {
    if (queue_.empty()) queue_ = handlers_.emptied();
    if (!queue_.empty()) writer_.write(std::exchange(queue_, {}));
  }
  if (over_ && (dead_ || (queue_.empty() && !writing()))) {
    limit_.disarm();
    std::exchange(over_, nullptr)();
  }
}

void SideFile::close(Instant until, std::function<void()> over) {
  over_ = std::move(over);
  end_by(until);
  pump();
}

void SideFile::end_by(Instant until) {
  if (!over_) return;
  limit_.arm(until, [this] {
    if (!std::exchange(dead_, true))
      handlers_.say(fmt::format("{}: {} did not take its end in time", option_, quoted(name_, 300)));
    pump();
  });
}

}  // namespace trainrun::output
