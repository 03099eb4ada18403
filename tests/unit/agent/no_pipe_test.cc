// A worker whose pipes cannot be made: the launcher is told the system's own reason.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <thread>

#include "agent_scene.h"

using namespace trainrun;

namespace {

// From now on our pipes fail with `error` in this thread and in what it forks. The sanitizers' own, which are
// not close-on-exec, do not.
bool refuse_pipes(int error) {
  std::array<sock_filter, 6> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pipe2, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),  // its low half, little-endian
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_CLOEXEC, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

TEST_SUITE("no pipe") {
  TEST_CASE("the launcher hears why a pipe could not be made, whatever the reason") {
    std::thread([] {
      REQUIRE(refuse_pipes(ENFILE));
      AgentScene scene;
      scene.start(1, {"/bin/true"});
      scene.until_said("not started 1 files " + std::to_string(ENFILE));
    }).join();
  }
}
