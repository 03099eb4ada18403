// The real rendezvous table, as a member's client and the launcher's hub speak to it: who has joined the
// generation, who waits for a place in the next.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/core/job_action.h"
#include "rendezvous/table.h"
#include "tests/sim/timeline.h"

namespace trainrun::sim {

struct Word {  // to a member
  enum class Kind : std::uint8_t { formed, over, placed, removed, notice };
  Kind kind = Kind::over;
  Generation generation{};
  Rank rank{};            // placed
  bool stopping = false;  // notice
};

class Meeting {
 public:
  struct Hands {
    std::function<void(WorkerId, Word)> tell;
    std::function<void(core::JobEvent)> event;
  };
  // `horovod`: it is told that they are Horovod's ranks, of which none has its place later.
  Meeting(Timeline& timeline, bool horovod, Hands hands)
      : timeline_(timeline), horovod_(horovod), hands_(std::move(hands)) {}

  // the launcher
  void begin(const core::BeginWorld& order);
  void end(const core::EndGeneration& order);
  void announce(const core::Announce& order);
  void dismiss(WorkerId worker);

  // members
  void join(WorkerId worker, Generation generation, Rank rank, bool elastic, Duration wait);
  void next(WorkerId worker, Generation after, Duration wait);
  void leave(WorkerId worker, Generation generation);
  void closed(WorkerId worker);

 private:
  // A client has a connection for its work, one for the end of the generation, one for news.
  enum class Line : std::uint8_t { work, watch, news };
  struct Asked {
    WorkerId worker;
    Generation generation;
    Line line = Line::work;
  };
  static std::uint32_t connection(WorkerId worker, Line line) {
    return worker.value * 4 + static_cast<std::uint32_t>(line);
  }
  void ask(const Asked& asked, decltype(rendezvous::Request::body) body);
  void carry(const rendezvous::Outbox& outbox);
  void answer(const Asked& asked, const rendezvous::ReplyBody& body);
  void watch_deadline();

  Timeline& timeline_;
  bool horovod_;
  Hands hands_;
  rendezvous::Table table_;
  std::map<std::uint32_t, Asked> asked_;  // by request
  std::map<WorkerId, Rank> rank_of_;
  std::uint32_t last_request_ = 0;
  std::optional<Instant> next_look_;
};

}  // namespace trainrun::sim
