// The last operations of a group, for whoever asks what a rank did: from any thread, also while one runs, and
// after it has failed. One thread at a time writes; it waits for no reader and costs some nanoseconds.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/backends/backend.h"

namespace trainrun::comm {

class Recorder {
 public:
  static constexpr std::size_t kept = 64;
  // The end of smaller operations is known to some milliseconds: a look at the clock would be a good part of
  // what they cost.
  static constexpr std::uint64_t exact_from = std::uint64_t{64} << 10;
  enum class State : std::uint8_t { runs, done, failed };
  struct Operation {
    std::uint64_t sequence = 0, bytes = 0;      // bytes of one rank's buffer, of all where they differ
    std::chrono::nanoseconds begun{}, ended{};  // of the steady clock; no end while it runs
    Call call = Call::barrier;
    trc_dtype dtype = TRC_U8;
    State state = State::runs;
  };

  void begin(const Descriptor& what, std::chrono::steady_clock::time_point now);
  // Of what began last.
  void end(State state);
  // The oldest that is still known first.
  [[nodiscard]] std::vector<Operation> read() const;

 private:
  // All parts are atomic, so a reader meets no torn one; the version tells it whether they belong together.
  struct Slot {
    std::atomic<std::uint64_t> version{0};  // 2 x the number of the operation, and odd while it is written
    std::atomic<std::uint64_t> sequence{0}, bytes{0}, what{0};
    std::atomic<std::int64_t> begun{0}, ended{0};
  };

  std::array<Slot, kept> slots_{};
  std::atomic<std::uint64_t> begun_{0};  // how many have
};

}  // namespace trainrun::comm
