// Who sits where in the world of a generation. It counts as it goes, so that no question about one member
// costs the number of all. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/base/time.h"
#include "rendezvous/store.h"

namespace trainrun::rendezvous {

enum class SeatState : std::uint8_t { empty, waiting, taken, left };

struct Seat {
  std::uint32_t connection = 0;
  WaiterNumber waiter = 0;  // waiting only
  bool leaves_at_close = false;
  // Its last pulse; `heard` is when it joined until then.
  std::string operation{};
  std::uint64_t sequence = 0;
  std::uint32_t group = 0;
  bool in_operation = false;
  Instant heard{};
};

class Seats {
 public:
  Seats() = default;
  explicit Seats(std::uint32_t size);

  [[nodiscard]] SeatState state(std::uint32_t rank) const { return states_[rank]; }
  [[nodiscard]] const Seat& at(std::uint32_t rank) const { return seats_[rank]; }
  Seat& at(std::uint32_t rank) { return seats_[rank]; }
  // What `seat` says replaces what was known.
  void put(std::uint32_t rank, SeatState state, Seat seat);
  void leave(std::uint32_t rank);

  [[nodiscard]] std::size_t count(SeatState state) const { return counts_[static_cast<std::size_t>(state)]; }
  // Ranks, in order.
  [[nodiscard]] const std::set<std::uint32_t>& empty() const { return empty_; }
  [[nodiscard]] std::vector<std::uint32_t> taken() const;  // looks at all seats
  // Who was the first to leave.
  [[nodiscard]] std::optional<std::uint32_t> first_left() const { return first_left_; }

 private:
  void change(std::uint32_t rank, SeatState state);

  std::vector<SeatState> states_;
  std::vector<Seat> seats_;
  std::array<std::size_t, 4> counts_{};
  std::set<std::uint32_t> empty_;
  std::optional<std::uint32_t> first_left_;
};

}  // namespace trainrun::rendezvous
