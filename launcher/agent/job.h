// What one job has on this host: its workers and all that serves them, its doors, ports and directory. The
// agent (agent.h) has the Link, and says when all of this ends.
#pragma once

#include <cstdint>
#include <functional>
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

class Job {
 public:
  // All must outlive it. What happens goes out on `link`.
  Job(io::Loop& loop, io::FrameStream& link, Handover& handover);
  ~Job();

  // Answers Prepared. Before it, there are no workers, and nothing is of any use.
  void open(const wire::OpenJob& order);
  [[nodiscard]] bool is_open() const { return is_open_; }
  [[nodiscard]] bool is_elastic() const { return elastic_; }
  [[nodiscard]] Duration grace() const { return grace_; }

  enum class Heard : std::uint8_t { taken, malformed, unknown };
  // Orders about workers, ports and streams.
  Heard receive(const wire::Frame& frame);
  void hold(bool on) { starts_.hold(on); }                 // no worker is started while it is on
  void look_at_memory() { supervisor_.look_at_memory(); }  // every few seconds
  void on_child();                                         // a child may have ended

  // Ends what is left: TERM, then KILL after the grace; `ended` is called once, when nothing is left or what
  // is left hangs in the kernel. No order is carried out any more that would start or look at something.
  void end(std::function<void()> ended);
  // One that has become another user's cannot be ended: the user must know of it. None named: everybody's.
  void tell_beyond_reach(const std::vector<WorkerId>& workers);
  [[nodiscard]] wire::Stopped what_was_left() const;

 private:
  [[nodiscard]] bool is_ending() const { return ended_ != nullptr; }
  void make_directory(const wire::OpenJob& order, wire::Prepared& answer);
  void restore_directory();
  void tell_cleared(const Cleared& cleared);
  void clear_after_others(const std::vector<std::string>& places, const std::string& own_id);
  [[nodiscard]] std::vector<MpiWatch::Silent> silent_ranks() const;
  void start(const wire::Start& order);
  void hold_port(const wire::HoldPort& order);
  void tell_refusal(uid_t user);
  [[nodiscard]] StreamHandlers relaying();
  [[nodiscard]] Door::Handlers at_door(wire::DoorKind kind);
  [[nodiscard]] Door& door(wire::DoorKind kind);
  void end_what_is_left();
  void note_tools();
  void tell_to_end();
  void ending_step();
  void leave();

  io::Loop& loop_;
  io::FrameStream& link_;
  Handover& handover_;
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
  io::Timer second_look_;  // for what others have left
  Fd life_;                // as long as it is open, nobody takes us for dead
  Duration grace_ = seconds(10);
  bool is_open_ = false, elastic_ = false, told_refusal_ = false;
  AskedToEnd told_beyond_reach_;

  // The end
  std::function<void()> ended_;
  io::Timer ladder_;
  AskedToEnd told_to_end_;  // of what is left
  AskedToEnd tools_;        // of an inspection that the end cut off, with what they have started
  bool spares_some_ = false, killed_ = false, left_ = false;
  std::size_t leftovers_ = 0;
  std::set<std::string> leftover_names_;
};

}  // namespace trainrun::agent
