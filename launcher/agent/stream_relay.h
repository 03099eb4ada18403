// One connection of this host that is a stream of the Link: bytes both ways, as many at once as the window
// has room for, and an end for each direction.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/agent/stream_handlers.h"
#include "launcher/base/id.h"
#include "launcher/io/loop.h"

namespace trainrun::agent {

class StreamRelay : public std::enable_shared_from_this<StreamRelay> {
 public:
  // Takes the descriptor, which does not block. `handlers` outlive it; `gone` forgets the relay, which may
  // destroy it.
  StreamRelay(io::Loop& loop, int fd, StreamId stream, const StreamHandlers& handlers,
              std::function<void()> gone);
  ~StreamRelay();

  void wait();                  // for the worker's bytes
  void begin() { readable(); }  // it may have written already
  void give(std::string_view bytes, bool end);
  void taken(std::uint64_t bytes);

 private:
  void readable();
  void write();
  void took(std::uint64_t bytes);
  [[nodiscard]] bool done() const { return told_end_ && ending_ && pending_.empty(); }

  struct Socket;
  const StreamHandlers& handlers_;
  std::unique_ptr<Socket> socket_;
  StreamId stream_;
  std::function<void()> gone_;
  std::string pending_;
  std::uint64_t under_way_ = 0;  // read from the worker and not taken at the other side
  std::uint64_t owed_ = 0;       // taken by the worker, and not told
  bool waiting_ = false, writing_ = false, ending_ = false, told_end_ = false;
};

}  // namespace trainrun::agent
