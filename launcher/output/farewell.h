// The end of a job's output. What still waits for a slow reader or disk is waited for as long as it takes
// some of it now and then; the loop goes on meanwhile, so signals are heard. Then it is given up.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "launcher/base/time.h"
#include "launcher/io/loop.h"

namespace trainrun::output {

class Farewell {
 public:
  struct Sink {
    std::function<std::optional<std::size_t>()> waiting;  // bytes; nothing: it has all
    std::function<void()> give_up;
    Duration time_limit;  // since it took something
    // Once, when it has taken nothing for `patience`: the bytes, and for how long they wait at most. Or null.
    std::function<void(std::size_t, Duration)> still_waits{};
    Duration patience = seconds(60);
  };
  explicit Farewell(io::Loop& loop) : timer_(loop) {}

  // Calls `over` once, when every sink has all or was given up; also from within this call. Not to be called
  // before an earlier one is over.
  void start(std::vector<Sink> sinks, std::function<void()> over);
  // Something may have been taken.
  void look();
  // What was started waits no longer than this. A later limit than an earlier one changes nothing.
  void limit(Instant until);

 private:
  struct Waiting {
    Sink sink;
    std::optional<std::size_t> seen{};
    Instant since{};  // it took something
    bool told = false, over = false;
  };

  io::Timer timer_;
  std::vector<Waiting> sinks_;
  std::function<void()> over_;
  std::optional<Instant> limit_;
};

}  // namespace trainrun::output
