// The threads on which the works of a group run. Each lane has one, from its first work on: a lane for the
// operations of all members, and one for each member that something is sent to, or received from, so that a
// send that waits for its receiver holds up nothing else.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "comm/work.h"

namespace trainrun::comm {

class Lane {
 public:
  Lane();
  // Its thread ends by itself, after the work that runs.
  ~Lane() { close(); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // After close() it is refused.
  void add(std::shared_ptr<Work> work);
  // Until all that were added have ended.
  void drain();
  [[nodiscard]] bool idle() const;
  // What has not begun is refused.
  void close();
  // Until no work runs any more, after close(); false: one still does.
  bool settle(Instant until);

 private:
  // Outlives this while the thread needs it.
  struct State;
  static void serve(State& state);
  std::shared_ptr<State> state_;
};

class Lanes {
 public:
  static constexpr int all_members = 0;
  static int to(int member) { return 1 + 2 * member; }
  static int from(int member) { return 2 + 2 * member; }

  void add(int lane, std::shared_ptr<Work> work);
  // Calls that wait come after the works that were added before them. Costs nothing where there were none.
  void drain(int lane);
  void drain();
  [[nodiscard]] bool idle();  // all that were added have ended
  // Ends all; false: a work still runs, and what it works with must stay.
  bool close(Instant until);

 private:
  std::atomic<bool> used_ = false;
  std::mutex mutex_;  // nodes stay where they are
  std::map<int, Lane> lanes_;
};

}  // namespace trainrun::comm
