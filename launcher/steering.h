// What changes a job from outside while it runs: the discovery of hosts, and `trainrun ctl`. Both end in
// events for the brain; nothing is decided here. A job that is not elastic has no discovery, and of `ctl`
// what changes no world.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/controller.h"
#include "launcher/run.h"

namespace trainrun {

namespace control {
class ControlServer;
struct Command;
}  // namespace control
class Discovery;

class Steering {
 public:
  // `job` and `controller` must outlive it. Begins with the job: the first answer of the discovery is what a
  // job without hosts waits for.
  Steering(io::Loop& loop, const JobSpec& job, Controller& controller, Surroundings surroundings);
  ~Steering();
  Steering(const Steering&) = delete;
  Steering& operator=(const Steering&) = delete;

 private:
  void listen(io::Loop& loop);
  void ask_for_hosts();
  [[nodiscard]] std::string answer(const control::Command& command);
  [[nodiscard]] std::string world() const;

  const JobSpec& job_;
  Controller& controller_;
  std::vector<std::string> directories_;
  std::unique_ptr<Discovery> discovery_;
  std::unique_ptr<control::ControlServer> control_;
  io::Timer listen_;
};

}  // namespace trainrun
