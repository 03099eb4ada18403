// A worker that says that it has begun, and when, and then waits for its end.
//
//   bench_beacon SOCKET
//
// "RANK RESTARTS NANOSECONDS" goes to a Unix datagram socket; the kernel adds the pid as the receiver sees
// it, so the bench knows whom to kill on whatever host. The clock is read before anything else: what a
// launcher costs ends there.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

const char* value_of(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "0";
}

}  // namespace

int main(int argc, char** argv) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  sockaddr_un bench{};
  bench.sun_family = AF_UNIX;
  if (argc != 2 || std::strlen(argv[1]) >= sizeof bench.sun_path) return 2;
  std::strcpy(bench.sun_path, argv[1]);
  char text[128];
  const int size =
      std::snprintf(text, sizeof text, "%s %s %lld", value_of("RANK"), value_of("TORCHELASTIC_RESTART_COUNT"),
                    static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec);
  const int sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (sendto(sender, text, static_cast<size_t>(size), 0, reinterpret_cast<const sockaddr*>(&bench),
             sizeof bench) != size) {
    std::perror(argv[1]);
    return 1;
  }
  for (;;) pause();
}
