// All groups of a world in this process, for the watcher, to which they are one. The first is that of all
// ranks.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "comm/group.h"

namespace trainrun::comm {

class Groups {
 public:
  // One that comes after abort() is aborted, after close() closed. It lives until remove() or as long as
  // this.
  Group& add(std::unique_ptr<Group> group);
  void remove(const Group& group);
  void clear();
  // What Group has of the same name, of all of them.
  void abort();
  void close();
  [[nodiscard]] bool broken() const;
  [[nodiscard]] bool disagreed() const;  // one of them: see Group
  [[nodiscard]] Duration time_left(Instant now) const;
  void look_at_time(Instant now, Duration stood_still);
  // Of one that is in an operation, or else of the one that has had the most.
  [[nodiscard]] Group::Progress progress() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Group>> groups_;
  bool aborted_ = false, closed_ = false;
};

}  // namespace trainrun::comm
