// Ends what dead workers left behind, while the agent lives on and other workers may: TERM, after the grace
// KILL, until nothing of theirs is left.
//
// All of it descends from the agent, which is a subreaper; the question is only what belongs to whom. With no
// worker alive everything does. Else a live worker's tree is spared, and of the orphans that fell to us those
// go whose owner (Supervisor::owner_of) is dead, each with all that descends from it. An orphan that nobody
// can name is spared, with its tree: it may be a live worker's daemon. Stop ends it at the latest.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <vector>

#include "launcher/agent/supervisor.h"
#include "launcher/base/time.h"
#include "launcher/io/loop.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

class Sweeper {
 public:
  // `is_tool`: a child of ours that no worker started. `swept` is called once for each sweep, possibly within
  // begin().
  Sweeper(io::Loop& loop, Supervisor& supervisor, std::function<bool(pid_t)> is_tool,
          std::function<void(const wire::Sweep&, const wire::Swept&)> swept);
  ~Sweeper();

  // Children must have been reaped before begin() and step().
  void begin(const wire::Sweep& order, Duration grace);
  void step();  // a child may have ended
  // To be called before a worker starts: from then on not everything is of the dead.
  void before_start();
  void drop();  // ends no more, and answers no more

 private:
  struct Sweep;
  [[nodiscard]] bool meant(const Sweep& sweep, pid_t child) const;
  [[nodiscard]] std::map<pid_t, std::uint64_t> look(const Sweep& sweep) const;
  bool advance(Sweep& sweep);
  void kill(Sweep& sweep);
  void end(Sweep& sweep, std::size_t stuck);

  io::Loop& loop_;
  Supervisor& supervisor_;
  std::function<bool(pid_t)> is_tool_;
  std::function<void(const wire::Sweep&, const wire::Swept&)> swept_;
  std::list<Sweep> sweeps_;
};

}  // namespace trainrun::agent
