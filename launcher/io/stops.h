// For how long a process stood still, and the time that is left without that. Pure.
#pragma once

#include <utility>
#include <vector>

#include "launcher/base/time.h"

namespace trainrun::io {

// `real` moments are those of the kernel's monotonic clock, `running` ones leave out all stops before them:
// at first both are the same, and a running moment never comes twice.
class Stops {
 public:
  // Nothing ran from `from` until `until`, both real and not before the stops that are known.
  void add(Instant from, Instant until);
  // A moment within a stop is the one at which the stop began.
  [[nodiscard]] Instant running(Instant real) const;
  // The other way; the moment at which a stop began is its end, where what was due then happens.
  [[nodiscard]] Instant real(Instant running) const;
  // The latest stop, real; two equal moments when there was none.
  [[nodiscard]] std::pair<Instant, Instant> last() const { return last_; }

 private:
  struct Stop {
    Instant from;  // real
    Duration length;
  };
  std::vector<Stop> stops_;
  Duration forgotten_{};  // of those before them
  std::pair<Instant, Instant> last_{};
};

}  // namespace trainrun::io
