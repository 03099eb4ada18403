// Starts that were ordered and have not been done. One is done a turn of the loop, so that what comes behind
// thousands of them is heard meanwhile: a Ping, and above all the order to end, after which none is started.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "launcher/io/loop.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

class StartQueue {
 public:
  struct Handlers {
    std::function<void(const wire::Start&)> start;
    std::function<void(WorkerId)> dropped;  // by drop(); it will not be started
  };
  StartQueue(io::Loop& loop, Handlers handlers);

  void add(wire::Start order);
  void drop(const std::vector<WorkerId>& workers);  // none named: all
  void hold(bool on);                               // nothing is started while it is on
  void clear() { waiting_.clear(); }

 private:
  void next();

  io::Loop& loop_;
  Handlers handlers_;
  std::deque<wire::Start> waiting_;
  bool held_ = false, resting_ = false;  // until the next turn of the loop
};

}  // namespace trainrun::agent
