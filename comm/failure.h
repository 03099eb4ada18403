// Why something in comm failed, with all that trc_last_error can tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "comm/trainrun_comm.h"
#include "rendezvous/messages.h"

namespace trainrun::comm {

struct Failure {
  trc_status status = TRC_INTERNAL;
  std::string message{};
  std::optional<std::uint32_t> culprit{};
  std::string host{}, how{};
  std::vector<std::uint32_t> missing{};
  bool of_world = false;  // it is how the world ended, and its ranks are those of the world, not of a group
  std::string operation{};
  std::uint64_t sequence = 0;
  std::uint32_t generation = 0;  // in which it happened; 0: in none
};

template <class T>
using Outcome = tl::expected<T, Failure>;

Failure failure_of(const rendezvous::Verdict& verdict);
Failure failure_of(const rendezvous::Failure& failure);

constexpr const char* has_left = "has left the world";  // `how`

// The rank left while others counted on it.
Failure failure_of_leaver(const rendezvous::Member& member);

inline tl::unexpected<Failure> fail(trc_status status, std::string message) {
  Failure failure;
  failure.status = status;
  failure.message = std::move(message);
  return tl::unexpected(std::move(failure));
}

}  // namespace trainrun::comm
