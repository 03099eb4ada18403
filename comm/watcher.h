// Hears from the rendezvous server what the launcher will do and how the generation ended, and tells it of
// progress, on a thread and a connection of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "comm/failure.h"
#include "comm/group.h"
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

  // `progress` is asked once a second; the server is told when it has changed. `on_end` is called once, on
  // the watcher's thread, after verdict() has its value; never after stop().
  Watcher(rendezvous::Client client, Rank rank, std::function<Group::Progress()> progress,
          std::function<void()> on_end);
  ~Watcher() { stop(); }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  void stop();
  [[nodiscard]] std::optional<Failure> verdict() const;
  std::optional<Failure> wait_for_verdict(Duration within);
  [[nodiscard]] Notices notices() const;

 private:
  void run();
  Failure listen();  // until the end

  rendezvous::Client client_;
  Rank rank_;
  std::function<Group::Progress()> progress_;
  std::function<void()> on_end_;
  mutable std::mutex mutex_;
  Notices notices_;
  std::optional<Failure> verdict_;
  std::condition_variable end_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace trainrun::comm
