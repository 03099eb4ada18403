#include "launcher/core/hang_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/base/strings.h"
#include "launcher/core/innermost_frame.h"

namespace trainrun::core {
namespace {

// Over which an agent measures what a worker does that seems to hang.
constexpr std::uint32_t sample_ms = 500;
constexpr std::size_t longest_name = 80;

}  // namespace

bool HangWatch::alive(Instant now) {
  last_life_ = now;
  return std::exchange(inspecting_, false);
}

void HangWatch::operated(WorkerId worker, const std::string& operation, std::uint64_t sequence, bool inside) {
  if (operation.empty()) return;  // it has had none
  last_operation_[worker] = fmt::format("{} {}{}", inside ? "in" : "after", quoted(operation, longest_name),
                                        sequence == 0 ? "" : fmt::format(" number {}", sequence));
}

std::optional<Duration> HangWatch::too_silent(Instant now) {
  const auto silence = now - last_life_;
  if (!limit_ || silence < *limit_) return std::nullopt;
  last_life_ = now;
  return silence;
}

std::optional<Instant> HangWatch::next_look() const {
  return limit_ ? std::optional(last_life_ + *limit_) : std::nullopt;
}

wire::Inspect HangWatch::inspect() {
  looks_.clear();
  inspecting_ = true;
  return {++sequence_, sample_ms};
}

std::string HangWatch::seen(Rank rank, const wire::Inspected& found, Instant now) {
  std::string words = fmt::format("state {}, {} ms of CPU and {} bytes of I/O in {} ms", found.state,
                                  found.cpu_ms, found.io_bytes, sample_ms);
  if (!found.waits_in.empty()) words += ", waits in " + found.waits_in;
  const auto known = last_operation_.find(found.worker);
  const auto operation = known == last_operation_.end() ? std::string{} : known->second;
  if (!operation.empty()) words += ", " + operation;
  const auto spoke = last_output_.find(found.worker);
  const auto silent = spoke == last_output_.end() ? std::nullopt : std::optional(now - spoke->second);
  words += silent ? ", last output " + format_duration(*silent) + " ago" : ", no output so far";
  const auto frame = innermost_frame(found.stack);
  if (const auto& name = frame.mpi.empty() ? frame.name : frame.mpi; !name.empty()) words += ", in " + name;
  const bool busy = found.state == "R" || found.cpu_ms > sample_ms / 4;
  const bool stopped = found.state.starts_with('T') || found.state.starts_with('t');
  looks_.push_back({rank, busy, operation, silent, frame, found.waits_in, stopped});
  return words;
}

std::optional<OddOne> HangWatch::compare(std::size_t ranks) {
  if (looks_.size() != ranks) return std::nullopt;
  std::sort(looks_.begin(), looks_.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  const auto looks = std::exchange(looks_, {});
  return odd_one_out(looks);
}

}  // namespace trainrun::core
