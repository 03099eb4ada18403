#include "launcher/discovery/file_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "launcher/base/fd.h"
#include "launcher/io/shared_wait.h"

namespace trainrun {

struct FileWatch::State : std::enable_shared_from_this<State> {
  State(io::Loop& loop, const std::string& path, std::function<void()> given)
      : changed(std::move(given)), ready(loop) {
    const auto slash = path.rfind('/');
    directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
    name = slash == std::string::npos ? path : path.substr(slash + 1);
  }

  bool ensure() {
    if (watch >= 0) return true;
    if (!events) {
      events = Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
      if (!events) return false;
      if (!wait()) return false;
    }
    // No IN_MODIFY: half a file is no answer. IN_ATTRIB: a file that could not be read becomes readable.
    watch = ::inotify_add_watch(events.get(), directory.c_str(),
                                IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB |
                                    IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
    return watch >= 0;
  }

  bool wait() {
    const int error = ready.wait(events.get(), io::SharedWait::For::reading, [weak = weak_from_this()] {
      if (const auto state = weak.lock()) state->look();
    });
    if (error != 0) events.reset();
    return error == 0;
  }

  // Kubernetes swaps the link `..data` beside a mounted file, which itself is a link through it.
  [[nodiscard]] bool concerns(std::string_view changed_name) const {
    return changed_name == name || changed_name == "..data";
  }

  void look() {
    bool mine = false;
    alignas(inotify_event) std::array<char, 16 * 1024> buffer;
    for (;;) {
      const auto count = ::read(events.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      for (std::size_t at = 0; at < static_cast<std::size_t>(count);) {
        inotify_event event{};
        std::memcpy(&event, buffer.data() + at, sizeof event);
        const char* text = buffer.data() + at + sizeof event;  // padded with NUL
        if ((event.mask & IN_Q_OVERFLOW) != 0) mine = true;
        if (event.wd == watch) {
          if (event.len > 0 && concerns({text, ::strnlen(text, event.len)})) mine = true;
          if ((event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) != 0) {
            ::inotify_rm_watch(events.get(), watch);
            watch = -1;
            mine = true;
          }
        }
        at += sizeof event + event.len;
      }
    }
    if (!wait()) watch = -1;
    if (mine && changed) {
      const auto tell = changed;  // it may destroy us
      tell();
    }
  }

  std::string directory, name;
  std::function<void()> changed;
  io::SharedWait ready;
  Fd events;
  int watch = -1;
};

FileWatch::FileWatch(io::Loop& loop, const std::string& path, std::function<void()> changed)
    : state_(std::make_shared<State>(loop, path, std::move(changed))) {}
FileWatch::~FileWatch() { state_->changed = nullptr; }
bool FileWatch::ensure() { return state_->ensure(); }

}  // namespace trainrun
