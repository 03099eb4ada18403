// Hears from the rendezvous server what the launcher will do and how the generation ended, tells it of
// progress, and looks at the time of operations, on a thread and a connection of its own.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "comm/errands.h"
#include "comm/failure.h"
#include "comm/foreign_sockets.h"
#include "comm/groups.h"
#include "comm/steps.h"
#include "launcher/base/time.h"
#include "rendezvous/client.h"

namespace trainrun::comm {

class Watcher {
 public:
  struct Notices {
    bool change = false;  // hosts will come or go
    bool stop = false;    // this member is to go
    std::string text;     // the last notice, for people
  };

  // The server is told of the groups' progress, of the first at once, then each second; where there was none,
  // the same again, so that a process that stands still is known by its silence. At the end, once verdict()
  // has its value, the groups are aborted, errands() are interrupted, and foreign() is shut, again and again
  // until stop(), since connections may be under way; never after stop(). A member that leaves while others
  // may count on it is an end too. `world` and `groups` outlive this.
  Watcher(rendezvous::Client client, const rendezvous::World& world, Rank rank, Groups& groups);
  ~Watcher() { stop(); }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  void stop();
  [[nodiscard]] std::optional<Failure> verdict() const;
  std::optional<Failure> wait_for_verdict(Duration within);
  [[nodiscard]] Notices notices() const;

  [[nodiscard]] Errands& errands() { return errands_; }
  // Of a program whose data goes through another library: its connections, and its progress.
  [[nodiscard]] ForeignSockets& foreign() { return foreign_; }
  [[nodiscard]] Steps& steps() { return steps_; }

 private:
  void run();
  void keep_shutting();
  Failure listen();  // until the end
  void tell_backend();

  rendezvous::Client client_;
  const rendezvous::World& world_;
  Rank rank_;
  Groups& groups_;
  Errands errands_;
  ForeignSockets foreign_;
  Steps steps_;
  mutable std::mutex mutex_;
  Notices notices_;
  std::optional<Failure> verdict_;
  std::condition_variable end_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace trainrun::comm
