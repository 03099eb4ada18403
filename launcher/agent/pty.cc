#include "launcher/agent/pty.h"

#include <fcntl.h>
#include <stdlib.h>
#include <termios.h>

#include <cerrno>

namespace trainrun::agent {

int open_pty(FdPair& pty) {
  Fd ours(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ours) return errno;
  char name[64];
  if (::grantpt(ours.get()) != 0 || ::unlockpt(ours.get()) != 0) return errno;
  if (const int error = ::ptsname_r(ours.get(), name, sizeof name); error != 0) return error;
  Fd theirs(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!theirs) return errno;
  termios settings{};
  if (::tcgetattr(theirs.get(), &settings) != 0) return errno;
  ::cfmakeraw(&settings);
  if (::tcsetattr(theirs.get(), TCSANOW, &settings) != 0) return errno;
  pty.first = std::move(ours);
  pty.second = std::move(theirs);
  return 0;
}

}  // namespace trainrun::agent
