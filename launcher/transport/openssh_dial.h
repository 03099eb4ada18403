// One host that is reached through an ssh process: starts it, has the bootstrap's talk with it, starts
// another when the host hung up, and keeps it until it has ended.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/io/child.h"
#include "launcher/io/loop.h"
#include "launcher/transport/agent_image.h"
#include "launcher/transport/dial_job.h"
#include "launcher/transport/last_words.h"

namespace trainrun::transport {

class OpensshDial {
 public:
  struct Shared {  // by all dials of a transport
    SshOptions options;
    const AgentImage& image;
    std::vector<std::string> places;
  };
  // `over` is called once, from the loop: the dial has been answered and no process is left. It may destroy
  // the object. `shared` must outlive it.
  OpensshDial(io::Loop& loop, const Shared& shared, DialJob job, std::function<void()> over);
  ~OpensshDial();
  OpensshDial(const OpensshDial&) = delete;
  OpensshDial& operator=(const OpensshDial&) = delete;

  void start();  // from the loop
  // The process, if there is one, for whoever ends many together; the link is closed. Nothing but the
  // destructor may follow.
  std::unique_ptr<io::Child> give_up_child();

 private:
  struct Talk;
  Result<void> start_ssh();
  void wait_readable();
  void wait_writable();
  void talk();
  void send_image();
  void answer(Result<Dialled> result);
  void give_up(Error error);
  void late();
  void ended(const io::ChildEnd& end);

  io::Loop& loop_;
  const Shared& shared_;
  DialJob job_;
  std::function<void()> over_;
  bool answered_ = false;
  io::Timer timer_;  // of the talk's deadline, then of the pause before the next attempt
  std::shared_ptr<LastWords> words_;
  std::shared_ptr<Talk> talk_;  // ours alone, until the link is handed over or the talk failed
  std::unique_ptr<io::Child> child_;
};

}  // namespace trainrun::transport
