// The agent of one host: one small single-threaded process. It does what the launcher says over the Link and
// takes one decision of its own: when the Link is gone, or the launcher silent for too long, or it was told
// to go by a signal, it ends what it started and goes.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/asked_to_end.h"
#include "launcher/agent/door.h"
#include "launcher/agent/inspection.h"
#include "launcher/agent/job_directory.h"
#include "launcher/agent/mpi_watch.h"
#include "launcher/agent/pmi_sockets.h"
#include "launcher/agent/pmix_helper.h"
#include "launcher/agent/ports.h"
#include "launcher/agent/predecessor.h"
#include "launcher/agent/preloader.h"
#include "launcher/agent/start_queue.h"
#include "launcher/agent/store_watch.h"
#include "launcher/agent/supervisor.h"
#include "launcher/agent/sweeper.h"
#include "launcher/agent/watcher.h"
#include "launcher/agent/worker_ports.h"
#include "launcher/base/fd.h"
#include "launcher/io/frame_stream.h"
#include "launcher/io/loop.h"

namespace trainrun::agent {

class Agent {
 public:
  Agent(io::Loop& loop, Fd in, Fd out, Handover& handover);
  ~Agent();
  // The process's exit code, once the loop has stopped: 0 after a proper Stop, 1 after the Link was lost.
  [[nodiscard]] int exit_code() const { return exit_code_; }
  void on_child();
  // TERM, INT, HUP, QUIT, USR1 or USR2. After one of the first four the launcher is told that this agent is
  // to go (Leaving), and has the grace and 2 s to end it: until then ranks are served, so that none of their
  // last words is lost. At the end of that time, or at the second such signal, all is ended at once. USR1 is
  // Leaving without an end, for elastic jobs alone, and USR2 means nothing.
  void on_signal(int number);

 private:
  // Ending what is left: TERM, then KILL after the grace. `stopping`: asked for; `lost`: by our own decision.
  enum class Mode { serving, stopping, lost };

  void receive(const wire::Frame& frame);
  void setup(const wire::Setup& setup);
  std::vector<MpiWatch::Silent> silent_ranks() const;
  void start(const wire::Start& order);
  void restore_directory();
  void tell_cleared(const Cleared& cleared);
  void hold_port(const wire::HoldPort& order);
  void tell_refusal(uid_t user);
  [[nodiscard]] StreamHandlers relaying();
  [[nodiscard]] Door::Handlers at_door(wire::DoorKind kind);
  [[nodiscard]] Door& door(wire::DoorKind kind);
  void tell_leaving(int number);
  void end_by_signal(int number);
  void give_up(const std::string& why);
  void lose_link();
  void end_everything();
  void tell_to_end();
  void ending_step();
  void leave();
  void tell_beyond_reach(const std::vector<WorkerId>& workers);
  void beat();
  void watch_silence();

  io::Loop& loop_;
  Handover& handover_;
  io::FrameStream link_;
  PmiSockets pmi_;
  PmixHelper pmix_;
  Supervisor supervisor_;
  Preloader preloader_;
  MpiWatch mpi_watch_;
  StoreWatch store_watch_;
  Inspector inspector_;
  Sweeper sweeper_;
  StreamId last_stream_{};
  Door door_, torch_door_, horovod_door_;
  WorkerPorts worker_ports_;
  HeldPort held_port_;
  StartQueue starts_;
  JobDirectory directory_;
  Fd life_;  // as long as it is open, nobody takes us for dead
  io::Timer pulse_, silence_, ladder_, leave_by_;
  Mode mode_ = Mode::serving;
  Duration grace_ = seconds(10), host_timeout_ = seconds(10);
  Instant last_heard_;
  bool paused_ = false, is_set_up_ = false, left_ = false;
  bool elastic_ = false, told_leaving_ = false, told_refusal_ = false;
  int leave_signal_ = 0;       // the latest ...
  Instant leave_signal_at_{};  // ... and when the first came
  AskedToEnd told_to_end_;     // of what is left
  AskedToEnd told_beyond_reach_;
  bool spares_some_ = false;
  std::size_t leftovers_ = 0;
  std::set<std::string> leftover_names_;
  bool killed_ = false;
  int exit_code_ = 0;
};

}  // namespace trainrun::agent
