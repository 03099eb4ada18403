#include "rendezvous/seats.h"

#include <utility>

namespace trainrun::rendezvous {

Seats::Seats(std::uint32_t size) : states_(size, SeatState::empty), seats_(size) {
  counts_[static_cast<std::size_t>(SeatState::empty)] = size;
  for (std::uint32_t rank = 0; rank < size; ++rank) empty_.insert(empty_.end(), rank);
}

void Seats::change(std::uint32_t rank, SeatState state) {
  auto& now = states_[rank];
  --counts_[static_cast<std::size_t>(now)];
  ++counts_[static_cast<std::size_t>(state)];
  if (now == SeatState::empty) empty_.erase(rank);
  if (state == SeatState::empty) empty_.insert(rank);
  now = state;
}

void Seats::put(std::uint32_t rank, SeatState state, Seat seat) {
  change(rank, state);
  seats_[rank] = std::move(seat);
}

void Seats::leave(std::uint32_t rank) {
  change(rank, SeatState::left);
  if (!first_left_) first_left_ = rank;
}

std::vector<std::uint32_t> Seats::taken() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < states_.size(); ++rank)
    if (states_[rank] == SeatState::taken) ranks.push_back(rank);
  return ranks;
}

}  // namespace trainrun::rendezvous
