// Which hosts may be used: failures are written down here, and a host that failed too often rests for a
// while.
//
// A worker's own failure is its slot's: only the third within `window` is the host's, or the first within
// `window` after it rested for its workers: a host that is sick is not tried three times after each rest. A
// host that was lost, or could not be reached, is blamed at once. The rest starts at `least`, doubles with
// each blame within the window of the one before, and is `most` at the longest. Deaths of workers that only
// lost a peer are not told to it.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "launcher/base/id.h"
#include "launcher/base/time.h"

namespace trainrun::core {

class HostLedger {
 public:
  HostLedger(Duration least, Duration most) : least_(least), most_(most) {}

  // True when this makes the host rest.
  bool worker_failed(HostIndex host, Instant now);
  // At least for `atleast`, whatever the user's range says: an agent that fell silent may still be ending its
  // workers.
  void host_failed(HostIndex host, Instant now, Duration atleast = Duration::zero());
  void forgive(HostIndex host) { entries_.erase(host); }

  // Whether anything is written down about it.
  [[nodiscard]] bool knows(HostIndex host) const { return entries_.contains(host); }
  // Whether it was made to rest for its workers within the window.
  [[nodiscard]] bool rested_lately(HostIndex host, Instant now) const;
  // Several were.
  [[nodiscard]] bool several_rested_lately(Instant now) const;
  [[nodiscard]] bool rests(HostIndex host, Instant now) const;
  // When its rest ends; nothing for a host that has none, or whose rest is over.
  [[nodiscard]] std::optional<Instant> rests_until(HostIndex host, Instant now) const;

  static constexpr int tolerated = 2;  // failures of workers on one host within the window
  static constexpr Duration window = seconds(600);

 private:
  struct Entry {
    std::deque<Instant> workers;  // the latest `tolerated` failures
    int blames = 0;
    Instant blamed_at{}, until{};
    std::optional<Instant> rested_for_workers{};
  };
  void rest(Entry& entry, Instant now, Duration atleast);

  Duration least_, most_;
  std::map<HostIndex, Entry> entries_;
};

}  // namespace trainrun::core
