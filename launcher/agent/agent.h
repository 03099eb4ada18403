// The agent of one host: one small single-threaded process. It does what the launcher says over the Link and
// takes one decision of its own: when the Link is gone, or the launcher silent for too long, or it was told
// to go by a signal, it ends what it started and goes. What it starts is a job's, and in job.h.
#pragma once

#include <string>

#include "launcher/agent/job.h"
#include "launcher/agent/watcher.h"
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
  // How it ends. `stopping`: asked for; `lost`: by our own decision.
  enum class Mode { serving, stopping, lost };

  void receive(const wire::Frame& frame);
  void greet(const wire::Greet& greeting);
  void open(const wire::OpenJob& order);
  void pass_on(const wire::Frame& frame);
  void tell_leaving(int number);
  void end_by_signal(int number);
  void give_up(const std::string& why);
  void lose_link();
  void end_job();
  void leave();
  void beat();
  void watch_silence();

  io::Loop& loop_;
  Handover& handover_;
  const int watcher_;  // our parent
  io::FrameStream link_;
  Job job_;
  io::Timer pulse_, silence_, leave_by_;
  Mode mode_ = Mode::serving;
  Duration host_timeout_ = seconds(10);
  Instant last_heard_;
  bool paused_ = false, is_greeted_ = false, told_leaving_ = false;
  int leave_signal_ = 0;       // the latest ...
  Instant leave_signal_at_{};  // ... and when the first came
  int exit_code_ = 0;
};

}  // namespace trainrun::agent
