// The progress of a program whose operations are another library's: the steps that it says it has done. Until
// the first one of a world, and while it says that it does something else (a validation, a checkpoint), it is
// not expected to show any, and its watcher speaks for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace trainrun::comm {

class Steps {
 public:
  struct Pulse {
    const char* what;
    std::uint64_t number;
    bool odd;  // differs from that of the pulse before, so that equal numbers are news as well
  };

  // From any thread.
  void expect() { counted_ = true; }
  void done(std::uint64_t number) {
    counted_ = true;
    number_ = number;
    begun_ = true;
  }
  void pause(bool on) { paused_ = on; }
  [[nodiscard]] bool counted() const { return counted_; }

  // What to tell now, about once a second, from one thread.
  std::optional<Pulse> pulse() {
    if (!counted_) return std::nullopt;
    const auto number = number_.load();
    if (begun_ && !paused_) {
      if (number == told_) return std::nullopt;
      told_ = number;
      return Pulse{"step", number, false};
    }
    odd_ = !odd_;
    return Pulse{paused_ ? "pause" : "start", number, odd_};
  }

 private:
  std::atomic<bool> counted_ = false, begun_ = false, paused_ = false;
  std::atomic<std::uint64_t> number_ = 0;
  std::uint64_t told_ = 0;
  bool odd_ = false;
};

}  // namespace trainrun::comm
