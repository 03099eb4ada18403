// How a worker tells a bench that it has come somewhere, and when: a Unix datagram. The kernel adds the pid
// as the receiver sees it, so the bench knows whom to kill on whatever host.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>

namespace bench {

inline long long now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// "RANK ROUND NANOSECONDS" to the socket at `path`; the round is a restart count or a generation.
inline bool say_hello(const char* path, const char* rank, const char* round, long long at_ns) {
  sockaddr_un bench{};
  bench.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof bench.sun_path) return false;
  std::strcpy(bench.sun_path, path);
  char text[128];
  const int size = std::snprintf(text, sizeof text, "%s %s %lld", rank, round, at_ns);
  const int sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool sent = sendto(sender, text, static_cast<size_t>(size), 0,
                           reinterpret_cast<const sockaddr*>(&bench), sizeof bench) == size;
  close(sender);
  return sent;
}

}  // namespace bench
