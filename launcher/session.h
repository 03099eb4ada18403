// One agent as seen from here: dialling -> greeting -> ready -> closing -> closed. It speaks the Link's
// messages, keeps the agent's clock and its silence in view, and reports; what follows from a report is
// decided elsewhere.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/base/error.h"
#include "launcher/core/job_spec.h"
#include "launcher/io/frame_stream.h"
#include "launcher/io/loop.h"
#include "launcher/wire/messages.h"

namespace trainrun {

class Session {
 public:
  enum class State : std::uint8_t { dialling, greeting, ready, closing, closed };

  struct Loss {
    std::string reason;
    Instant heard{};          // when the agent last gave a sign of life
    bool gave_us_up = false;  // it had every reason to: this process stood still for too long
    bool closed = false;      // from there: it was not lost by silence
  };
  struct Handlers {
    std::function<void()> ready;                        // facts(), job_directory(), door_port() are known
    std::function<void(Error)> failed;                  // before it was ready
    std::function<void(Loss)> lost;                     // after
    std::function<void(const wire::Frame&)> message;    // everything that concerns workers, ports and streams
    std::function<void(const wire::Stopped&)> stopped;  // the agent has cleared up; the session is closed
  };

  Session(io::Loop& loop, std::string host_name, bool same_clock, Handlers handlers);
  ~Session();

  struct Opening {
    wire::Greet greeting;
    wire::OpenJob job;
    std::vector<wire::OpenDoor> doors;  // one at least, the first as one for Horovod would be
    std::vector<FoundProgram>
        found_here{};  // where those of the job's programs come from that were looked up here
  };
  // The Link stands: all of this goes out at once, without waiting for an answer.
  void connected(Fd link, Opening opening);
  template <class Message>
  void send(const Message& message) {
    if (link_) link_->send(message);
  }
  void stop();   // asks the agent to clear up and go
  void close();  // drops the Link; no handler is called any more
  // ^Z and fg: our silence means nothing in between. `done` is called when the agent has heard it, or is
  // gone: it is lost by the usual time-out if it does not answer.
  void pause(bool on, std::function<void()> done);

  // What the agent told after this is still on its way, as behind output on a slow link. Nothing: it comes at
  // once, nobody has asked since, or nothing comes at all.
  [[nodiscard]] std::optional<Instant> late_since() const;
  // Nothing comes of it since then, though it was asked. Nothing: something does.
  [[nodiscard]] std::optional<Instant> silent_since() const;
  void ask();  // so that it is known what was told before

  // Takes `bytes` of output into account; the agent's credit grows again when pay_credit() is called.
  void owe_credit(std::uint64_t bytes) { owed_ += bytes; }
  void pay_credit();

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const wire::HostFacts& facts() const { return facts_; }
  [[nodiscard]] const std::string& job_directory() const { return job_directory_; }
  // On loopback there; 0: no such door was asked for.
  [[nodiscard]] std::uint16_t door_port(wire::DoorKind kind = wire::DoorKind::rendezvous) const;
  // The agent's time on our clock, and how far the truth may be from it.
  struct Mapped {
    Instant at;
    Duration error;
  };
  [[nodiscard]] Mapped map_time(std::int64_t agent_ns) const;

 private:
  void receive(const wire::Frame& frame);
  void prepared(const wire::Prepared& answer);
  void ready_if_complete();
  void measure_clock(std::int64_t agent_ns);
  void lose(const std::string& reason);
  [[nodiscard]] std::string why_given_up() const;
  [[nodiscard]] std::string why_lost(const std::string& reason, bool silent) const;
  void ping();
  [[nodiscard]] Duration clock_error() const;

  io::Loop& loop_;
  std::string host_name_;
  bool same_clock_;
  Handlers handlers_;
  State state_ = State::dialling;
  std::unique_ptr<io::FrameStream> link_;
  std::vector<FoundProgram> found_here_;
  wire::HostFacts facts_;
  std::string job_directory_;
  bool is_greeted_ = false, is_prepared_ = false;
  std::map<wire::DoorKind, std::uint16_t> door_ports_;
  std::size_t doors_wanted_ = 0;
  wire::OpenDoor horovod_door_;  // for a program that is found to need it
  Duration host_timeout_{};
  std::uint64_t window_ = 0, owed_ = 0;
  io::Timer ping_timer_;
  std::uint32_t ping_sequence_ = 0;
  std::deque<std::pair<std::uint32_t, Instant>> unanswered_;  // pings, and when they were sent
  Duration answered_after_{};                                 // the latest of the others
  Instant ping_sent_, last_heard_;
  std::uint32_t agent_pid_ = 0;  // on its host
  // Of the kernel's clock, as the agent's is: stops of ours move neither.
  Instant ping_sent_real_, answered_real_;  // the latter: when the latest ping that was answered was sent
  std::int64_t offset_ns_ = 0;              // our clock minus the agent's
  Duration offset_error_ = Duration::max();
  Instant offset_at_;
  std::function<void()> pause_heard_;
};

}  // namespace trainrun
