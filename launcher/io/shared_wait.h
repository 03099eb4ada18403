// Waits for a descriptor that we share with others (our own stdin or stdout) without changing it: Asio makes
// what it waits for non-blocking, and with it the same open file in the shell and in other programs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "launcher/io/loop.h"

namespace trainrun::io {

class SharedWait {
 public:
  enum class For : std::uint8_t { reading, writing };
  explicit SharedWait(Loop& loop);
  ~SharedWait();  // `ready` is not called any more
  SharedWait(const SharedWait&) = delete;
  SharedWait& operator=(const SharedWait&) = delete;

  // Calls `ready` once when `fd` can be read or written, or its other end is gone. Always with the same `fd`.
  // 0, or an errno: EPERM for what is always ready (a file, /dev/null).
  int wait(int fd, For what, std::function<void()> ready);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trainrun::io
