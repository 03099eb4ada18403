// One thread that moves bytes between the channels of all live sessions and a socketpair each, so that the
// launcher's loop sees plain fds.
//
// Bounded memory: while the launcher does not read, libssh's window (1.3 MB) fills and the host stops; while
// the host does not read, the socketpair is left alone. One line holds at most two windows.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "launcher/transport/ssh_line.h"
#include "launcher/transport/transport.h"

namespace trainrun::transport {

class SshPump {
 public:
  SshPump() = default;
  ~SshPump() { close(); }
  SshPump(const SshPump&) = delete;
  SshPump& operator=(const SshPump&) = delete;

  // Thread-safe. Takes the session over; the thread starts with the first one.
  Result<Dialled> adopt(SshDialled dialled);
  // Ends every session; what was written to the links goes out first, within 300 ms. Takes no more sessions.
  void close();

 private:
  struct Watched {
    std::unique_ptr<SshLine> line;
    int link_events = -1, session_events = -1;  // what epoll was told; -1: it does not know the fd
  };
  void run();
  void turn(int timeout_ms);
  void move(std::uint64_t id);
  void watch(std::uint64_t id, Watched& watched);
  void tell(int fd, std::uint64_t key, int wanted, int& told) const;

  std::mutex mutex_;  // over the next three
  std::vector<std::unique_ptr<SshLine>> fresh_;
  std::thread thread_;
  bool stopping_ = false;

  Fd epoll_, wake_;
  // The thread's own.
  std::unordered_map<std::uint64_t, Watched> lines_;
  std::vector<std::uint64_t> again_;  // lines that had more to move than one turn lets them
  std::uint64_t next_id_ = 1;         // 0 is the wake-up
};

}  // namespace trainrun::transport
