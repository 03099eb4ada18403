// What no launcher can undercut: posix_spawn and two pipes a rank, read to their ends, and every rank reaped.
//
//   bench_floor COUNT PROGRAM [ARGUMENT...]
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern char** environ;

int main(int argc, char** argv) {
  const int count = argc > 2 ? std::atoi(argv[1]) : 0;
  if (count <= 0) return 2;
  std::vector<pollfd> ends;
  std::vector<pid_t> pids;
  for (int rank = 0; rank < count; ++rank) {
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return 1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    pid_t pid = -1;
    if (posix_spawn(&pid, argv[2], &actions, nullptr, argv + 2, environ) != 0) return 127;
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    ends.push_back({out[0], POLLIN, 0});
    ends.push_back({err[0], POLLIN, 0});
    pids.push_back(pid);
  }
  static char buffer[65536];
  for (std::size_t open = ends.size(); open > 0;) {
    if (poll(ends.data(), ends.size(), -1) < 0) return 1;
    for (auto& end : ends) {
      if (end.fd < 0 || end.revents == 0) continue;
      const ssize_t n = read(end.fd, buffer, sizeof buffer);
      if (n > 0) {
        if (write(1, buffer, static_cast<std::size_t>(n)) != n) return 1;
      } else if (n == 0 || errno != EINTR) {
        close(end.fd);
        end.fd = -1;
        --open;
      }
    }
  }
  int failed = 0;
  for (const pid_t pid : pids) {
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0) failed = 1;
  }
  return failed;
}
