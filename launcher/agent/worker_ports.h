// Streams that the launcher opens, towards ports of this host on which its workers listen: how ranks of
// Horovod hear that hosts change. A launcher can reach nothing by it that the job's user has not opened here.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "launcher/agent/stream_handlers.h"
#include "launcher/base/id.h"
#include "launcher/io/loop.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

class StreamRelay;

class WorkerPorts {
 public:
  struct Handlers {
    StreamHandlers relaying;
    std::function<void(StreamId, int error)> refused;
  };
  WorkerPorts(io::Loop& loop, Handlers handlers);
  ~WorkerPorts();

  void open(const wire::OpenStream& order);
  // What is given before the connection stands is kept for it. An end closes it, whatever is still to come.
  void give(StreamId stream, std::string_view bytes, bool end);
  void taken(StreamId stream, std::uint64_t bytes);

 private:
  io::Loop& loop_;
  Handlers handlers_;
  std::map<StreamId, std::shared_ptr<StreamRelay>> relays_;
};

}  // namespace trainrun::agent
