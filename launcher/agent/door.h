// A port on loopback for this host's workers. Each connection is relayed through the Link as a numbered
// stream, like an ssh port forward, without understanding a byte of it; the answers come from the launcher's
// rendezvous.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "launcher/agent/peer_owner.h"
#include "launcher/base/id.h"
#include "launcher/io/loop.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

class StreamRelay;

class Door {
 public:
  struct Handlers {
    std::function<void(StreamId, const PeerOwner&)> opened;
    std::function<void(StreamId, std::string_view bytes, bool end)> data;
    // Of what was given, the worker has taken so much more.
    std::function<void(StreamId, std::uint64_t bytes)> taken = nullptr;
    std::function<void(uid_t)> refused = nullptr;  // a process of another user wanted to come in
  };
  // `last_stream`: of all doors that share a Link; it must outlive the door.
  Door(io::Loop& loop, StreamId& last_stream, Handlers handlers);
  ~Door();

  // Listens on 127.0.0.1, on the first free port of the range (0,0: any).
  wire::DoorOpened open(std::uint16_t first, std::uint16_t last);
  // All is kept until the worker reads it: the giver keeps to wire::stream_window. A stream that is another
  // door's, or is over, is ignored, here and in taken().
  void give(StreamId stream, std::string_view bytes, bool end);
  // Of what `data` told, so much more has been taken; without that the worker is not read.
  void taken(StreamId stream, std::uint64_t bytes);

 private:
  struct Listener;
  void accept();
  bool accept_one();  // or errno says why nobody was
  std::unique_ptr<Listener> listener_;
  std::map<StreamId, std::shared_ptr<StreamRelay>> connections_;
  io::Timer retry_;
};

}  // namespace trainrun::agent
