// The body: turns what happens into events for the brain, and performs the brain's actions. It decides
// nothing.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/core/job_machine.h"
#include "launcher/fleet.h"
#include "launcher/input.h"
#include "launcher/io/loop.h"
#include "launcher/output/console.h"
#include "launcher/rendezvous_hub.h"

namespace trainrun {

class Controller {
 public:
  Controller(io::Loop& loop, const JobSpec& job, const core::Placement& placement, std::string key);
  ~Controller();

  // Dials every host; from here on all happens in the loop, which is stopped when the job is over.
  Result<void> start();
  void user_signal(int number) { event(core::UserSignal{number}); }
  void forward_signal(int number) { fleet_.send_all(wire::Signal{{}, number, false}); }
  // ^Z: the workers and then this process stop; fg: all go on.
  void suspend();
  void say(const std::string& line) { console_.say(line); }
  [[nodiscard]] int exit_code() const { return exit_code_; }

 private:
  void event(const core::JobEvent& event);
  void message(HostIndex host, const wire::Frame& frame);
  void output(HostIndex host, const wire::Frame& frame);
  void exited(HostIndex host, const wire::Frame& frame);

  void perform(const core::ReservePort&);
  void perform(const core::StartWorker&);
  void perform(const core::SignalWorkers&);
  void perform(const core::EndGeneration&);
  void perform(const core::StopHost&);
  void perform(const core::AbandonHost&);
  void perform(const core::Arm&);
  void perform(const core::Disarm&);
  void perform(const core::Say&);
  void perform(const core::Finish&);

  // The rank of a worker, if it is one of that host: an agent has no say about others.
  [[nodiscard]] std::optional<Rank> rank_on(HostIndex host, WorkerId worker) const;
  [[nodiscard]] wire::StdinMode stdin_mode(const core::Seat& seat) const;
  void use_held_port();
  void begin_rendezvous(Generation generation);

  io::Loop& loop_;
  const JobSpec& job_;
  const core::Placement& placement_;
  core::JobMachine machine_;
  output::Console console_;
  RendezvousHub rendezvous_;
  Fleet fleet_;
  Input input_;
  std::map<core::Deadline, std::unique_ptr<io::Timer>> timers_;
  std::uint16_t master_port_ = 0;
  std::optional<core::ReservePort> port_wanted_;  // the brain waits for it
  std::optional<wire::PortHeld> held_port_;       // an agent answered, and nobody has used it yet
  int exit_code_ = 70;
};

}  // namespace trainrun
