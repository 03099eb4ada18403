#include "launcher/base/pipe.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace trainrun {

int open_pipe(FdPair& ends) {
  int numbers[2];
  if (::pipe2(numbers, O_CLOEXEC) != 0) return errno;
  ends.first = Fd(numbers[0]);
  ends.second = Fd(numbers[1]);
  return 0;
}

int open_socket_pair(FdPair& ends) {
  int numbers[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, numbers) != 0) return errno;
  ends.first = Fd(numbers[0]);
  ends.second = Fd(numbers[1]);
  return 0;
}

}  // namespace trainrun
