// Hears from the rendezvous server how the generation ended, on a thread and a connection of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "comm/failure.h"
#include "launcher/base/time.h"
#include "rendezvous/client.h"

namespace trainrun::comm {

class Watcher {
 public:
  // `on_news` is called once, on the watcher's thread, after verdict() has its value; never after stop().
  Watcher(rendezvous::Client client, std::function<void()> on_news);
  ~Watcher() { stop(); }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  void stop();
  [[nodiscard]] std::optional<Failure> verdict() const;
  std::optional<Failure> wait_for_verdict(Duration within);

 private:
  void run();

  rendezvous::Client client_;
  std::function<void()> on_news_;
  mutable std::mutex mutex_;
  std::optional<Failure> verdict_;
  std::condition_variable news_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace trainrun::comm
