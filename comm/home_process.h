// The process that made a thing. A forked child has a copy of it, but none of its threads, and its sockets
// and shared memory are still the parent's: whatever the child did with them would be done to the parent. So
// the C interface asks here first, and in any other process touches nothing.
#pragma once

#include <sys/types.h>

namespace trainrun::comm {

class HomeProcess {
 public:
  HomeProcess();
  // Costs no system call, for it is asked before each operation.
  [[nodiscard]] bool here() const;

 private:
  pid_t pid_;
};

}  // namespace trainrun::comm
