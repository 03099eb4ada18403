// What the brain orders, performed.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "launcher/base/check.h"
#include "launcher/base/strings.h"
#include "launcher/controller.h"
#include "launcher/core/binding.h"
#include "launcher/core/replan.h"
#include "launcher/core/worker_env.h"
#include "launcher/output/report.h"

namespace trainrun {
namespace {

std::string wall_clock_of(Instant at) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const auto then =
      std::chrono::nanoseconds(static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec) -
      (io::Loop::now() - at);
  const std::time_t whole = static_cast<std::time_t>(then.count() / 1'000'000'000);
  tm parts{};
  ::localtime_r(&whole, &parts);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", parts.tm_hour, parts.tm_min, parts.tm_sec,
                     then.count() / 1'000'000 % 1000);
}

}  // namespace

// ---- what the brain orders

void Controller::perform(const core::AddHost& order) {
  TRAINRUN_CHECK(order.host.value == job_.hosts.hosts.size());
  job_.hosts.hosts.push_back(order.as);
}

void Controller::perform(const core::DialHost& order) {
  ports_asked_.erase(order.host);  // the agent that was asked is gone, and so is what it held
  if (held_port_ && held_port_->for_whom.host == order.host) held_port_.reset();
  fleet_.dial(order.host);
}

void Controller::perform(const core::ReservePort& order) {
  port_wanted_ = order;
  if (job_.master_port != 0) {  // the user's port is used as it is, and not held
    return loop_.post([this, generation = order.generation] {
      if (!port_wanted_ || port_wanted_->generation != generation) return;
      port_wanted_.reset();
      master_port_ = job_.master_port;
      event(core::PortReserved{generation});
    });
  }
  if (held_port_) loop_.post([this] { use_port(); });
  const auto& asked = ports_asked_[order.host];
  const bool known = std::find(asked.begin(), asked.end(), order.generation) != asked.end() ||
                     (held_port_ && held_port_->for_whom == order);
  if (!known) ask_port(order.host, order.generation);
}

void Controller::ask_port(HostIndex host, Generation generation) {
  ports_asked_[host].push_back(generation);
  fleet_.at(host).send(wire::HoldPort{job_.ports.first, job_.ports.last});
}

void Controller::port_held(HostIndex host, const wire::PortHeld& held) {
  auto& asked = ports_asked_[host];
  if (asked.empty()) return;
  held_port_ = HeldPort{{asked.front(), host}, held};
  asked.pop_front();
  use_port();
}

void Controller::use_port() {
  if (!port_wanted_ || !held_port_ || held_port_->for_whom != *port_wanted_) return;
  const auto wanted = *std::exchange(port_wanted_, std::nullopt);
  const auto held = std::exchange(held_port_, std::nullopt)->answer;
  if (held.error != 0) {
    return event(
        core::PortRefused{wanted.generation,
                          Error{Code::try_again,
                                fmt::format("{}: cannot reserve a port for MASTER_PORT: {}",
                                            job_.hosts.hosts[wanted.host.value].name, errno_text(held.error)),
                                "widen --port-range, or name a port with --master-port"}});
  }
  master_port_ = held.port;
  event(core::PortReserved{wanted.generation});
}

void Controller::perform(const core::BeginWorld& order) {
  world_ = order.placement;
  restarts_ = order.restarts;
  facts_ = fleet_.facts();
  const auto address = [this](HostIndex host) {
    return core::address_of(host, facts_, job_).value_or(std::string{});
  };
  master_address_ = address(world_.seats.front().host);
  std::vector<RendezvousHub::Member> members;
  for (const auto& seat : world_.seats) {
    members.push_back(
        {seat, job_.hosts.hosts[seat.host.value].name, address(seat.host), order.workers[seat.rank.value]});
  }
  std::erase_if(last_operation_, [&](const auto& it) {
    return std::find(order.workers.begin(), order.workers.end(), it.first) == order.workers.end();
  });
  rendezvous_.begin(world_.generation, members);
  console_.begin_world(world_, order.workers);
  sign_of_life();
  if (job_.elastic.hang_timeout && !life_.armed()) watch_life();
}

wire::StdinMode Controller::stdin_mode(const core::Seat& seat) const {
  switch (job_.stdin_to) {
    case StdinTo::none:
      return wire::StdinMode::null;
    case StdinTo::all:
      return wire::StdinMode::relay;
    case StdinTo::rank:
      break;
  }
  if (seat.rank.value != static_cast<std::uint32_t>(job_.stdin_rank)) return wire::StdinMode::null;
  return fleet_.is_local(seat.host) && Input::can_be_inherited() ? wire::StdinMode::inherit
                                                                 : wire::StdinMode::relay;
}

void Controller::perform(const core::StartWorker& order) {
  const auto& seat = world_.seats[order.rank.value];
  auto& session = fleet_.at(seat.host);
  const auto directory = session.job_directory();
  core::WorldFacts world;
  world.master_addr = master_address_;
  world.master_port = std::to_string(master_port_);
  world.rendezvous = fmt::format("127.0.0.1:{}", session.door_port());
  world.key_file = directory + "/key";
  // Old files of other generations must not be taken for this one's.
  world.error_file = order.generation.value == 1
                         ? fmt::format("{}/rank.{}.error.json", directory, order.rank.value)
                         : fmt::format("{}/rank.{}.generation.{}.error.json", directory, order.rank.value,
                                       order.generation.value);
  world.address = core::address_of(seat.host, facts_, job_).value_or(std::string{});
  world.restart_count = restarts_;

  const auto& program = job_.programs[seat.program];
  wire::Start start;
  start.worker = order.worker;
  start.generation = order.generation;
  start.argv = program.argv;
  start.directory = program.directory;
  start.env = core::worker_env(job_, world_, order.rank, world, &session.facts());
  const auto slots =
      job_.elastic.enabled()
          ? std::max(seat.local_size, static_cast<std::uint32_t>(std::max(
                                          core::slots_of(job_, job_.hosts.hosts[seat.host.value]), 0)))
          : seat.local_size;
  start.cpus = core::cpus_for(job_, session.facts(), seat.slot, slots).value_or(std::vector<std::uint32_t>{});
  start.stdin_mode = stdin_mode(seat);
  if (start.stdin_mode == wire::StdinMode::relay) input_.add(order.worker);
  session.send(start);
}

void Controller::perform(const core::SignalWorkers& order) {
  fleet_.send_all(wire::Signal{order.workers, order.number, order.deep});
}

void Controller::perform(const core::Sweep& order) {
  fleet_.at(order.host)
      .send(wire::Sweep{order.generation ? order.generation->value : 0, order.workers, !order.generation});
}

void Controller::perform(const core::Announce& order) {
  const auto change = order.hosts_come && order.hosts_leave ? rendezvous::Change::both
                      : order.hosts_leave                   ? rendezvous::Change::leaving
                                                            : rendezvous::Change::added;
  rendezvous_.announce(order.generation, change, order.leaving,
                       order.hosts_leave ? "hosts will leave" : "hosts are ready");
}

void Controller::perform(const core::Dismiss& order) { rendezvous_.dismiss(order.worker); }

// Not within a step of the brain, which an answer would enter again.
void Controller::perform(const core::AskForHosts&) {
  if (!ask_for_hosts_) return;
  loop_.post([this] {
    if (ask_for_hosts_) ask_for_hosts_();
  });
}

void Controller::perform(const core::EndGeneration& order) {
  if (!order.culprit) return rendezvous_.end(order.generation, order.reason);
  const auto& host = job_.hosts.hosts[world_.seats[order.culprit->value].host.value].name;
  rendezvous_.member_lost(order.generation, *order.culprit, host, order.reason);
}

void Controller::perform(const core::StopHost& order) { fleet_.at(order.host).stop(); }

void Controller::perform(const core::AbandonHost& order) {
  rendezvous_.host_gone(order.host);
  fleet_.abandon(order.host);
}

void Controller::perform(const core::Arm& order) {
  auto& timer = timers_[order.deadline];
  if (!timer) timer = std::make_unique<io::Timer>(loop_);
  timer->arm(order.at, [this, deadline = order.deadline] { event(core::DeadlinePassed{deadline}); });
}

void Controller::perform(const core::Disarm& order) {
  if (const auto it = timers_.find(order.deadline); it != timers_.end()) it->second->disarm();
}

void Controller::perform(const core::Say& order) {
  if (!order.detail || job_.verbose > 0) console_.say(order.text);
}

void Controller::perform(const core::Finish& order) {
  output::ReportFacts facts;
  if (order.outcome.cause) {
    facts.last_words = console_.last_words(order.outcome.cause->worker);
    facts.wall_clock = wall_clock_of(order.outcome.cause->at);
  }
  exit_code_ = order.outcome.exit_code;
  console_.close();
  console_.report(output::report_lines(job_, order.outcome, facts));
  console_.close();
  loop_.stop();
}

}  // namespace trainrun
