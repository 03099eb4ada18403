#include "launcher/transport/dial_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace trainrun::transport {

Duration pause_after(int attempts) {
  thread_local std::minstd_rand random(std::random_device{}());
  const int base = 100 << std::clamp(attempts - 1, 0, 4);
  return milliseconds(base / 2 + static_cast<int>(random() % static_cast<unsigned>(base)));
}

Error gave_up(Error error, int attempts) {
  error.code = Code::unreachable;
  error.message += fmt::format(" ({} attempts)", attempts);
  return error;
}

}  // namespace trainrun::transport
