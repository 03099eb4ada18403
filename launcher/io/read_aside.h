// One read that may wait for long, from a descriptor that we share with others and cannot open anew, in a
// thread of its own. Where the process ends first, the thread ends with it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/io/loop.h"

namespace trainrun::io {

class ReadAside {
 public:
  ReadAside();
  ~ReadAside();  // `done` is not called any more; a read that still waits takes what comes with it
  ReadAside(const ReadAside&) = delete;
  ReadAside& operator=(const ReadAside&) = delete;

  // Calls `done` on the loop with what one read gave, at most `most` bytes, and its errno or 0; no bytes and
  // 0 at the end. One at a time. `at`: where in a file to read, whose own place stays; none: where it stands.
  // An errno if no thread can be started.
  int start(Loop& loop, int fd, std::size_t most, std::optional<off_t> at,
            std::function<void(std::string bytes, int error)> done);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace trainrun::io
