// All groups of a world in this process, for the watcher, to which they are one. The first is that of all
// ranks.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/group.h"

namespace trainrun::comm {

class Groups {
 public:
  // A group is being made by this rank, which waits for the others of it: an operation like each other one
  // while this lives, of number 0. `operation`: what that is called.
  class Opening {
   public:
    Opening(Groups& groups, const std::string& name, std::size_t members, std::string operation);
    ~Opening();
    Opening(const Opening&) = delete;
    Opening& operator=(const Opening&) = delete;

   private:
    Groups& groups_;
    std::list<Group::Progress>::iterator at_;
  };

  // One that comes after abort() is aborted, after close() closed. It lives until remove() or as long as
  // this.
  Group& add(std::unique_ptr<Group> group);
  void remove(const Group& group);
  void clear();
  // What Group has of the same name, of all of them.
  void abort();
  void close();
  [[nodiscard]] bool broken() const;
  // Of one that is broken, if one is.
  [[nodiscard]] std::optional<Failure> why_broken() const;
  [[nodiscard]] bool disagreed() const;  // one of them: see Group
  [[nodiscard]] Duration time_left(Instant now) const;
  void look_at_time(Instant now, Duration stood_still);
  [[nodiscard]] const char* backend() const;  // of the first
  // Of one that is in an operation, or else of the one that has had the most.
  [[nodiscard]] Group::Progress progress() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::list<Group::Progress> openings_;
  bool aborted_ = false, closed_ = false;
};

}  // namespace trainrun::comm
