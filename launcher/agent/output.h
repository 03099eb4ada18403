// Workers' stdout and stderr on their way into the Link. All pumps of an agent share one credit: without it
// no pipe is read, the pipes fill, and the workers wait. So memory is bounded whatever workers print, and no
// byte is lost.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <memory>

#include "launcher/base/fd.h"
#include "launcher/io/loop.h"

namespace trainrun::agent {

class OutputPump;

class CreditPool {
 public:
  void add(std::uint64_t bytes);
  // Bytes that no pump has read are under way.
  void charge(std::uint64_t bytes) { bytes_ -= std::min(bytes_, bytes); }

 private:
  friend class OutputPump;
  std::uint64_t bytes_ = 0;
  std::list<std::weak_ptr<OutputPump>> waiting_;  // first come, first served
};

class OutputPump : public std::enable_shared_from_this<OutputPump> {
 public:
  struct Handlers {
    std::function<void(std::string_view bytes)> bytes;
    std::function<void()> ended;  // once: end of file, everything was handed on
  };
  static std::shared_ptr<OutputPump> start(io::Loop& loop, CreditPool& credit, Fd pipe, Handlers handlers);
  ~OutputPump();
  void stop();      // closes the pipe; no handler is called any more
  void read_now();  // what is in the pipe goes before whatever is sent next, as far as there is credit

  // What stands in the pipe now is marked, and through when all of it has been handed on, or at the end of
  // the pipe. What is written later is read as well, and not waited for.
  void mark();
  [[nodiscard]] bool marked_is_through() const;

 private:
  friend class CreditPool;
  struct Pipe;
  OutputPump(io::Loop& loop, CreditPool& credit, Fd pipe, Handlers handlers);
  void wait();
  void pump();
  void read();

  CreditPool& credit_;
  Handlers handlers_;
  std::unique_ptr<Pipe> pipe_;
};

}  // namespace trainrun::agent
