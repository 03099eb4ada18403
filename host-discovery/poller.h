// Answers of a discovery in, hosts to work with out: quick to add, slow to take away, deaf to nonsense.
// Pure: whoever asks has the clock.
//
//   a new host, more slots           at once
//   a host missing, fewer slots      when the next good look agrees (two that differ agree on the larger
//                                    count, and a missing host has none); at once when the answer says
//                                    `!host`
//   a failure, garbage               the last good answer stays; each said once, a few at most, and once
//                                    more when it is over
//
// Hosts that stay keep their order, whatever the order of the answer; new ones come last, in its order. So
// the ranks of a running world do not shift because a script sorts by load.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host-discovery/host.h"
#include "host-discovery/script.h"

namespace trainrun::hosts {

class Poller {
 public:
  struct Told {
    std::optional<HostSet> hosts{};  // to work with from now on; nothing: as before
    std::vector<std::string> say{};  // lines for the user
  };

  // The first answer is told even when it names nobody. `witness`: false for a look that came so soon after
  // the last one that both may have met the same hiccup: it adds, but it confirms no removal.
  Told answer(const Listing& listing, bool witness = true);
  // `why` in one line. It breaks the row of looks that a removal needs.
  Told failure(const std::string& why);

  [[nodiscard]] const HostSet& hosts() const { return hosts_; }
  // The last answer, given again, would change nothing.
  [[nodiscard]] bool settled() const { return settled_; }

 private:
  HostSet hosts_;
  // As long as hosts_.hosts: the slots that the last look saw there (none, if the host was missing), when
  // that were fewer than we work with.
  std::vector<std::optional<int>> doubts_;
  bool settled_ = false;
  bool answered_ = false;              // there was a good answer
  std::vector<std::string> failures_;  // since then, as they were told
};

}  // namespace trainrun::hosts
