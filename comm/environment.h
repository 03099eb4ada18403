// Where this process stands in a job, from the environment (trainrun_comm.h lists the variables) and options.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "comm/failure.h"
#include "launcher/base/id.h"
#include "launcher/base/time.h"

namespace trainrun::comm {

enum class BackendChoice : std::uint8_t { automatic, shm, gloo };

struct Environment {
  std::string rendezvous;  // empty: a world of one
  std::string key_file;
  std::optional<Rank> rank;
  std::optional<std::uint32_t> size;
  Generation generation{1};
  std::string address;  // empty: that of the connection to the server
  std::string host;
  BackendChoice backend = BackendChoice::automatic;
  WorkerId worker{};  // 0: nobody gave one, so there is no next generation for this process
  Duration op_timeout = std::chrono::minutes(5);
  Duration init_timeout = std::chrono::minutes(2);
  Duration elastic_timeout = std::chrono::minutes(10);  // for a place in the next generation
  Duration nccl_abort_timeout = std::chrono::seconds(10);
  std::size_t fusion_bytes = std::size_t{64} << 20;  // of the buffer on a device for lists of tensors
};

// `get` is getenv or stands in for it: null for a variable that is not set.
Outcome<Environment> read_environment(const char* (*get)(const char*), const trc_options* options);

}  // namespace trainrun::comm
