// The messages of streams: connections of a host's workers that the Link carries. Most come through doors,
// ports on loopback for the workers; some the launcher opens, towards ports on which workers listen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/base/id.h"

namespace trainrun::wire {

#define TRAINRUN_MESSAGE(number)               \
  static constexpr std::uint8_t type = number; \
  template <class V>                           \
  void fields([[maybe_unused]] V& v)

// What speaks behind a door: our rendezvous, a store that PyTorch's programs know, or Horovod's rendezvous.
enum class DoorKind : std::uint8_t { rendezvous, torch_store, horovod };
constexpr bool is_known(DoorKind kind) { return kind <= DoorKind::horovod; }
constexpr const char* name_of(DoorKind kind) {
  return kind == DoorKind::torch_store ? "PyTorch's store"
         : kind == DoorKind::horovod   ? "Horovod's rendezvous"
                                       : "its ranks' rendezvous";
}

// ---- launcher to agent

// Listen on loopback for workers; answered by DoorOpened, then a StreamOpened for each connection.
struct OpenDoor {
  std::uint16_t first = 0, last = 0;
  DoorKind kind = DoorKind::rendezvous;
  TRAINRUN_MESSAGE(9) { v("first", first), v("last", last), v("kind", kind); }
};

// Connect to a port of the agent's own host on which a process of the job's user listens. What comes from
// there is StreamData; StreamRefused, if nothing will. When the launcher ends the stream it is closed at
// once. The launcher numbers these itself, from `first_of_launcher` on.
struct OpenStream {
  static constexpr std::uint32_t first_of_launcher = 1u << 31;
  StreamId stream;
  std::uint32_t address = 0;  // IPv4, the first number in the highest byte
  std::uint16_t port = 0;
  TRAINRUN_MESSAGE(14) { v("stream", stream), v("address", address), v("port", port); }
};
constexpr bool is_of_launcher(StreamId stream) { return stream.value >= OpenStream::first_of_launcher; }

// End the connections of workers here that have one of these addresses at either end: IPv4 or IPv6 and a
// port, in network order, so 6 or 18 bytes. Both sides of each see its end, and the workers live on.
struct BreakConnections {
  std::vector<std::string> ends;
  TRAINRUN_MESSAGE(17) { v("ends", ends); }
};

// ---- both ways

struct StreamData {
  StreamId stream;
  std::string bytes;
  bool end = false;  // no more from this side after these; the stream is gone when both sides ended it
  TRAINRUN_MESSAGE(20) { v("stream", stream), v("bytes", bytes), v("end", end); }
};

// So many more bytes of this stream have been taken by whoever they are for. Each side has at most
// `stream_window` under way that are not taken yet, so a peer that does not read costs no more memory than
// that. It need not be told for each byte: a quarter of the window at once is soon enough.
struct StreamTaken {
  StreamId stream;
  std::uint64_t bytes = 0;
  TRAINRUN_MESSAGE(21) { v("stream", stream), v("bytes", bytes); }
};
constexpr std::uint64_t stream_window = 1u << 20;

// ---- agent to launcher

struct DoorOpened {
  std::uint16_t port = 0;
  std::int32_t error = 0;
  DoorKind kind = DoorKind::rendezvous;
  TRAINRUN_MESSAGE(51) { v("port", port), v("error", error), v("kind", kind); }
};

// Streams of all doors of a host are numbered together.
struct StreamOpened {
  StreamId stream;
  DoorKind kind = DoorKind::rendezvous;
  WorkerId owner{};  // whose process it is; torch_store alone, and 0 if nobody can say
  TRAINRUN_MESSAGE(52) { v("stream", stream), v("kind", kind), v("owner", owner); }
};

// An OpenStream came to nothing. EACCES: what listens there is another user's, or not on this host.
struct StreamRefused {
  StreamId stream;
  std::int32_t error = 0;
  TRAINRUN_MESSAGE(62) { v("stream", stream), v("error", error); }
};

#undef TRAINRUN_MESSAGE

}  // namespace trainrun::wire
