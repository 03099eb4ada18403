// Tells when the ranks of a world have been silent for too long, and keeps what an inspection of them finds
// until all were seen. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/id.h"
#include "launcher/base/time.h"
#include "launcher/core/odd_one_out.h"
#include "launcher/wire/messages.h"

namespace trainrun::core {

class HangWatch {
 public:
  // `limit`: how long ranks may be silent (--hang-timeout); nothing: for ever.
  explicit HangWatch(std::optional<Duration> limit) : limit_(limit) {}

  // A sign of life of any rank. True when an inspection was under way, which is then over.
  bool alive(Instant now);
  void printed(WorkerId worker, Instant now) { last_output_[worker] = now; }
  // Of a program on `comm`: it is in this operation, or was in it last.
  void operated(WorkerId worker, const std::string& operation, std::uint64_t sequence, bool inside);
  // All that is known of the others is forgotten, and the operations of the world before.
  template <class Keep>
  void begin_world(const Keep& is_kept) {
    last_operation_.clear();
    std::erase_if(last_output_, [&](const auto& it) { return !is_kept(it.first); });
  }

  // How long all have been silent, if that is too long; the next look is then a whole limit later.
  std::optional<Duration> too_silent(Instant now);
  // When to look again.
  [[nodiscard]] std::optional<Instant> next_look() const;

  // An inspection begins; answers carry its number.
  wire::Inspect inspect();
  [[nodiscard]] bool awaits(std::uint32_t sequence) const { return inspecting_ && sequence == sequence_; }
  // What was seen of a rank, in words: what it did meanwhile, where it waits, since when it is silent.
  std::string seen(Rank rank, const wire::Inspected& found, Instant now);
  // Once all `ranks` were seen, which one does something else; with one missing nobody knows what that does.
  std::optional<OddOne> compare(std::size_t ranks);

 private:
  std::optional<Duration> limit_;
  Instant last_life_{};
  bool inspecting_ = false;  // and no sign of life came since
  std::uint32_t sequence_ = 0;
  std::map<WorkerId, std::string> last_operation_;
  std::map<WorkerId, Instant> last_output_;
  std::vector<Look> looks_;
};

}  // namespace trainrun::core
