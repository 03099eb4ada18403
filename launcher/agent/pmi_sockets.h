// The sockets over which the ranks of this host speak PMI-1, one a rank, and the world that answers them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "launcher/base/fd.h"
#include "launcher/io/frame_stream.h"
#include "launcher/io/loop.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

class PmiSockets {
 public:
  // What concerns other hosts and the launcher goes out on `link`, which must outlive this.
  PmiSockets(io::Loop& loop, io::FrameStream& link);
  ~PmiSockets();
  PmiSockets(const PmiSockets&) = delete;
  PmiSockets& operator=(const PmiSockets&) = delete;

  void setup(std::string job_id);
  // The rank runs, with the other end of `socket`. A newer generation takes the place of the one before.
  void begin(const wire::Start& order, Fd socket);
  // The rank's process has ended, and what it had said last is heard: whether it was within MPI.
  [[nodiscard]] bool ended_in_mpi(WorkerId worker);
  // ... and it will not be heard again. After the launcher was told of the end.
  void left(WorkerId worker);
  [[nodiscard]] bool has_spoken(WorkerId worker) const;

  void gathered(const wire::Gathered& message);
  void failed(const wire::GatherFailed& message);
  void asked(const wire::Ask& question);

 private:
  struct State;
  struct Connection;
  std::unique_ptr<State> state_;
};

}  // namespace trainrun::agent
