// The agent's helper for ranks that speak PMIx (launcher/pmix): starts it, holds the starts of ranks back
// until it has answered, carries what it says to the world of the present generation and back, and says so
// when it is gone.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/pmix_channel.h"
#include "launcher/agent/pmix_world.h"
#include "launcher/base/fd.h"
#include "launcher/io/child.h"
#include "launcher/io/frame_stream.h"
#include "launcher/io/loop.h"
#include "launcher/wire/death_messages.h"
#include "launcher/wire/messages.h"

namespace trainrun::agent {

class PmixHelper {
 public:
  struct Handlers {
    std::function<void(const wire::Start&)> start;  // a rank that was held back, with the helper's variables
    std::function<void(WorkerId, wire::Output, const std::string&)> print;
  };
  // What concerns other hosts and the launcher goes out on `link`, which must outlive this.
  PmixHelper(io::Loop& loop, io::FrameStream& link, Handlers handlers);
  ~PmixHelper();
  PmixHelper(const PmixHelper&) = delete;
  PmixHelper& operator=(const PmixHelper&) = delete;

  // Looks at the programs of the job. `answer` tells whose MPI they are, and the library by which ranks will
  // be served, the first that can be loaded. What is wrong comes as a problem.
  void look_at(const wire::OpenJob& order, wire::Prepared& answer);
  // There is to be a helper.
  [[nodiscard]] bool wanted() const { return wanted_; }
  // Starts the helper, if there is to be one: its own start goes on while the launcher thinks. What ranks
  // share by name they are told to keep in `memory`, unless that is empty or they were told otherwise.
  void begin(const std::string& job_directory, const std::string& memory);
  void world(const wire::World& world);
  // Calls Handlers::start, now or later; or tells the launcher that the rank is not started.
  void start(const wire::Start& order);
  // These ranks, or all, are to end: those that are held back are not started any more.
  void signal(const wire::Signal& order);

  // As PmiSockets has them.
  [[nodiscard]] bool ended_in_mpi(WorkerId worker);
  void left(WorkerId worker);
  [[nodiscard]] bool has_spoken(WorkerId worker) const { return world_ && world_->has_spoken(worker); }
  void gathered(const wire::Gathered& message);
  void failed(const wire::GatherFailed& message);
  void died(const wire::RankDied& death);
  void asked(const wire::Ask& question);
  void answered(const wire::Answer& answer);

  // A zombie of ours: takes its status if it is the helper's.
  bool take(pid_t child);
  [[nodiscard]] bool is_helper(pid_t child) const { return child_ && child == child_->pid(); }
  // For good: it is told to go, and stays a child of ours until it has gone, in a second or by force.
  void drop();

 private:
  void spawn();
  void receive(const wire::Frame& frame);
  void opened(const wire::pmix::Opened& answer);
  void registered(const wire::pmix::Registered& answer);
  void closed();
  void ended(const io::ChildEnd& end);
  void lose(const std::string& why);
  void serve();                                                           // the present world
  void release();                                                         // the helper
  [[nodiscard]] bool is_released() const { return child_ && !channel_; }  // and has not gone yet
  void refuse(const wire::Start& order, int error);
  void perform(PmixWorld::Effects effects);
  void perform(const wire::pmix::Reply& reply) { tell(reply); }
  void perform(const wire::pmix::AskModex& question) { tell(question); }
  void perform(const wire::pmix::RankDied& death) { tell(death); }
  void perform(const wire::Gather& part) { link_.send(part); }
  void perform(const wire::Ask& question) { link_.send(question); }
  void perform(const wire::Answer& answer) { link_.send(answer); }
  void perform(const PmixWorld::Abort& abort);
  void perform(const PmixWorld::Tell& line) { link_.send(wire::Note{line.text}); }
  void perform(const PmixWorld::Print& output);
  template <class Message>
  void tell(const Message& message) {
    if (channel_) channel_->send(message);
  }

  io::Loop& loop_;
  io::FrameStream& link_;
  Handlers handlers_;
  wire::EnvPairs env_;
  wire::pmix::Open open_;
  std::string memory_, prefix_;
  bool wanted_ = false;    // a helper is to serve here
  bool required_ = false;  // ranks that nobody serves could not find each other
  bool dropped_ = false;
  Fd image_;
  std::unique_ptr<io::Child> child_;
  std::unique_ptr<PmixChannel> channel_;
  io::Timer time_limit_, patience_;
  std::string last_words_;  // of the helper's stderr
  std::optional<PmixWorld> world_;
  enum class State { waiting, registered, failed } state_ = State::failed;  // of the present world
  wire::EnvPairs variables_;
  std::vector<wire::Start> held_;
};

}  // namespace trainrun::agent
