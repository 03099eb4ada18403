#include "launcher/output/events_file.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "launcher/output/event_line.h"

namespace trainrun::output {

namespace {
constexpr auto option = "--events";
}

Result<Fd> open_events(const std::string& target) {
  if (const auto number = side_descriptor(target)) return take_descriptor(option, target, *number);
  // A pipe with a name that nobody reads must not keep us waiting.
  Fd file(::open(target.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666));
  if (!file) return cannot_open(option, target, errno);
  return file;
}

EventsFile::EventsFile(io::Loop& loop, Fd file, std::string name, std::function<void(const std::string&)> say,
                       std::size_t most_queued)
    : file_(loop, std::move(file), option, std::move(name), most_queued,
            {.say = std::move(say), .emptied = [this] { return dropped(); }}) {}

std::string EventsFile::dropped() {
  return dropped_ > 0 ? dropped_line(std::exchange(dropped_, 0)) : std::string{};
}

void EventsFile::write(const std::string& line) {
  if (file_.dead()) return;
  const auto gap = dropped_ > 0 ? dropped_line(dropped_) : std::string{};
  if (!file_.has_room(gap.size() + line.size())) {
    ++dropped_;
    return;
  }
  dropped_ = 0;
  file_.queue(gap + line);
  file_.pump();
}

}  // namespace trainrun::output
