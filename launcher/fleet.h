// The agents of all hosts that take part: which transport reaches which host, and one Session each.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "host-discovery/machines.h"
#include "launcher/core/addresses.h"
#include "launcher/core/job_event.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/placement.h"
#include "launcher/session.h"
#include "launcher/transport/transport.h"

namespace trainrun {

class Fleet {
 public:
  struct Handlers {
    std::function<void(HostIndex)> ready;
    std::function<void(HostIndex, Error)> failed;
    std::function<void(HostIndex, Session::Loss)> lost;
    std::function<void(HostIndex, const wire::Frame&)> message;
    std::function<void(HostIndex, const wire::Stopped&)> stopped;
    std::function<void(const std::string&)>
        detail;  // for -v: how a host was reached, what its login shell printed
    // An agent is there and is being greeted: what is sent to it now comes right behind.
    std::function<void(HostIndex)> greeted = [](HostIndex) {};
  };

  using MakeTransport = std::function<std::unique_ptr<transport::Transport>(TransportKind)>;

  // `job` must outlive the fleet. `first` is the placement of a job that is not elastic, empty else. `key` is
  // the job's; agents write it to a file for their workers. `make` is called once for each kind.
  Fleet(io::Loop& loop, const JobSpec& job, const core::Placement& first, std::string key, Handlers handlers,
        MakeTransport make);
  ~Fleet();

  // In a later turn of the loop: local agents are forked before the ssh transport starts threads. A host that
  // was dialled before gets a new session; nothing of the old one is heard any more.
  void dial(HostIndex host);
  [[nodiscard]] Session& at(HostIndex host) { return *sessions_.at(host); }
  // Null for a host that was never dialled.
  [[nodiscard]] Session* find(HostIndex host);
  // Of the hosts that are ready.
  [[nodiscard]] core::FactsByHost facts() const;
  [[nodiscard]] bool is_local(HostIndex host) const;
  void abandon(HostIndex host);
  template <class Message>
  void send_all(const Message& message) {
    for (const auto& [host, session] : sessions_) session->send(message);
  }
  // Of the hosts that are there.
  [[nodiscard]] std::vector<core::LateHost> late() const;
  void ask_all();  // see Session::ask

  // So many bytes of the host's output are taken into account; its credit grows again by pay_credit().
  void owe_credit(HostIndex host, std::uint64_t bytes);
  void pay_credit();  // to all that are owed
  // ^Z and fg; `done` is called when every agent has heard it, and what was lost meanwhile has been told.
  void pause(bool on, std::function<void()> done);

 private:
  void dial_wanted();
  void dialled(HostIndex host, std::uint32_t dial, Result<transport::Dialled> result);
  void add_session(HostIndex host);
  [[nodiscard]] Session::Opening opening_for(HostIndex host) const;
  [[nodiscard]] std::vector<wire::OpenDoor> doors() const;
  void add_programs(HostIndex host, wire::OpenJob& order) const;
  [[nodiscard]] Result<void> suits(HostIndex host);
  // That no other name of the list has led to the same machine.
  [[nodiscard]] Result<void> is_a_host_of_its_own(HostIndex host);
  // What the far end printed on stderr since its agent spoke, as an addition to an error's text; mostly
  // empty.
  [[nodiscard]] std::string last_words(HostIndex host) const;
  // Calls `tell` with these, unless the host has a new session by then.
  void with_last_words(HostIndex host, std::function<void(const std::string& words)> tell);
  transport::Transport& transport_of(TransportKind kind);

  io::Loop& loop_;
  const JobSpec& job_;
  std::map<HostIndex, std::vector<core::Seat>> seats_;  // of the first placement of a job that is not elastic
  std::string key_;
  Handlers handlers_;
  std::map<HostIndex, std::unique_ptr<Session>> sessions_;
  hosts::Machines machines_;                       // where those that were reached turned out to be
  std::set<HostIndex> owed_;                       // of whose output something was taken since pay_credit()
  std::map<HostIndex, std::uint32_t> dials_;       // how often each was dialled
  std::vector<HostIndex> wanted_;                  // to be dialled in the next turn
  std::vector<std::unique_ptr<Session>> retired_;  // until the callback that may run in one is over
  struct Stderr {
    std::function<std::string()> text;
    std::string before;  // the agent spoke: what a login prints
  };
  std::map<HostIndex, Stderr> stderr_;
  std::size_t untold_ = 0;           // losses that wait for their last words
  std::function<void()> when_told_;  // what waits for them
  const MakeTransport make_transport_;
  std::map<TransportKind, std::unique_ptr<transport::Transport>> transports_;
};

// The real ones.
Fleet::MakeTransport transports_for(io::Loop& loop, const JobSpec& job);

// Whether two names of the list may lead to one machine: by --oversubscribe, or where all names are this
// host's.
bool may_share_a_machine(const JobSpec& job);
// They did, and may not.
Error same_machine(const JobSpec& job, HostIndex host, HostIndex other);

// local for this host, ssh for the rest, unless the user chose.
TransportKind transport_kind(const JobSpec& job, const Host& host);

}  // namespace trainrun
