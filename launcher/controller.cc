#include "launcher/controller.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "launcher/base/check.h"
#include "launcher/core/binding.h"
#include "launcher/core/worker_env.h"
#include "launcher/output/report.h"

namespace trainrun {
namespace {

// Workers' bytes that may wait for a slow reader of ours before agents are asked to hold theirs back.
constexpr std::size_t most_backlog = 4u << 20;

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

Controller::Controller(io::Loop& loop, const JobSpec& job, const core::Placement& placement, std::string key)
    : loop_(loop),
      job_(job),
      placement_(placement),
      machine_(job, placement),
      console_(loop, job, placement, output::look_at_terminal(),
               // One writer has caught up, the other may still be far behind. The end of stdout is seen in
               // the middle of other work, which is finished first.
               {[this] {
                  if (console_.backlog() <= most_backlog) fleet_.pay_credit();
                },
                [this] { loop_.post([this] { event(core::OutputClosed{}); }); }}),
      rendezvous_(loop, key, {[this](HostIndex host, StreamId stream, std::string bytes, bool end) {
                    fleet_.at(host).send(wire::StreamData{stream, std::move(bytes), end});
                  }}),
      fleet_(loop, job, placement, key,
             {[this](HostIndex host) { event(core::HostReady{host}); },
              [this](HostIndex host, Error error) {
                event(core::HostFailed{host, std::move(error)});
              },
              [this](HostIndex host, std::string reason) {
                rendezvous_.host_gone(host);
                event(core::HostLost{host, std::move(reason)});
              },
              [this](HostIndex host, const wire::Frame& frame) { message(host, frame); },
              [this](HostIndex host, const wire::Stopped& stopped) {
                event(core::HostStopped{host, stopped.leftovers, stopped.killed});
              },
              [this](const std::string& text) {
                if (job_.verbose > 0) console_.say(text);
              }}),
      input_(loop, [this](WorkerId worker, const std::string& bytes, bool end) {
        if (const auto* seat = machine_.seat_of(worker))
          fleet_.at(seat->host).send(wire::Stdin{worker, bytes, end});
      }) {}

Controller::~Controller() = default;

Result<void> Controller::start() {
  if (auto opened = console_.open_files(); !opened) return opened;
  event(core::Begin{});
  fleet_.dial_all();
  return {};
}

void Controller::event(const core::JobEvent& happened) {
  for (const auto& action : machine_.step(happened, io::Loop::now())) {
    std::visit([this](const auto& it) { perform(it); }, action);
  }
#ifndef NDEBUG
  const auto broken = machine_.broken_invariant();
  if (!broken.empty()) check_failed(broken.c_str(), __FILE__, __LINE__);
#endif
  console_.progress(machine_.progress());
}

// ---- what agents say

std::optional<Rank> Controller::rank_on(HostIndex host, WorkerId worker) const {
  const auto* seat = machine_.seat_of(worker);
  if (seat == nullptr || seat->host != host) return std::nullopt;
  return seat->rank;
}

void Controller::message(HostIndex host, const wire::Frame& frame) {
  const auto handle = [&]<class Message>(const Message*, auto&& work) {
    const auto message = wire::from_frame<Message>(frame);
    if (!message) return;
    if constexpr (requires { message->worker; }) {
      if (!rank_on(host, message->worker)) return;
    }
    work(*message);
  };
  switch (frame.type) {
    case wire::OutputBytes::type:
      return output(host, frame);
    case wire::Started::type:
      return handle(static_cast<wire::Started*>(nullptr), [this](const auto& it) {
        event(core::WorkerStarted{it.worker, it.pid});
      });
    case wire::NotStarted::type:
      return handle(static_cast<wire::NotStarted*>(nullptr), [this](const auto& it) {
        event(core::WorkerNotStarted{it.worker, ExitStatus::not_started(it.stage, it.error)});
      });
    case wire::Exited::type:
      return exited(host, frame);
    case wire::Finished::type:
      return handle(static_cast<wire::Finished*>(nullptr), [this, host](const auto& it) {
        const auto rank = *rank_on(host, it.worker);
        console_.worker_finished(rank);
        event(core::WorkerFinished{it.worker, core::sounds_like_lost_peer(console_.last_words(rank))});
      });
    case wire::StdinWanted::type:
      return handle(static_cast<wire::StdinWanted*>(nullptr),
                    [this](const auto& it) { input_.wanted(it.worker, it.bytes); });
    case wire::Note::type:
      return handle(static_cast<wire::Note*>(nullptr), [this, host](const auto& it) {
        console_.say(job_.hosts.hosts[host.value].name + ": " + it.text);
      });
    case wire::PortHeld::type:
      return handle(static_cast<wire::PortHeld*>(nullptr), [this, host](const auto& it) {
        if (host != placement_.seats.front().host) return;  // not asked
        held_port_ = it;
        use_held_port();
      });
    case wire::StreamOpened::type:
      return handle(static_cast<wire::StreamOpened*>(nullptr),
                    [this, host](const auto& it) { rendezvous_.opened(host, it.stream); });
    case wire::StreamData::type:
      return handle(static_cast<wire::StreamData*>(nullptr), [this, host](const auto& it) {
        rendezvous_.received(host, it.stream, it.bytes, it.end);
      });
    default:
      return;  // a message of a newer agent: the protocol version makes that impossible, and it harms nothing
  }
}

void Controller::output(HostIndex host, const wire::Frame& frame) {
  const auto message = wire::from_frame<wire::OutputBytes>(frame);
  if (!message) return;
  const auto rank = rank_on(host, message->worker);
  if (!rank) return;
  auto& session = fleet_.at(host);
  session.owe_credit(message->bytes.size());
  console_.worker_output(*rank, message->stream, message->bytes);
  if (console_.backlog() <= most_backlog) session.pay_credit();
}

void Controller::exited(HostIndex host, const wire::Frame& frame) {
  const auto message = wire::from_frame<wire::Exited>(frame);
  if (!message || !rank_on(host, message->worker)) return;
  input_.remove(message->worker);
  const auto when = fleet_.at(host).map_time(message->at_ns);
  const auto status = ExitStatus::from_wait(message->raw_status);
  event(core::WorkerExited{message->worker, status, when.at, when.error, message->out_of_memory});
}

// ---- what the brain orders

void Controller::perform(const core::ReservePort& order) {
  if (job_.master_port != 0) {  // the user's port is used as it is, and not held
    master_port_ = job_.master_port;
    loop_.post([this, generation = order.generation] {
      begin_rendezvous(generation);
      event(core::PortReserved{generation});
    });
    return;
  }
  // The fleet asked for the first generation's port with its greeting: mostly the answer is here already.
  port_wanted_ = order;
  loop_.post([this] { use_held_port(); });
}

void Controller::use_held_port() {
  if (!port_wanted_ || !held_port_) return;
  const auto wanted = *std::exchange(port_wanted_, std::nullopt);
  const auto held = *std::exchange(held_port_, std::nullopt);
  if (held.error != 0) {
    return event(
        core::PortRefused{wanted.generation,
                          Error{Code::try_again,
                                fmt::format("{}: cannot reserve a port for MASTER_PORT: {}",
                                            job_.hosts.hosts[wanted.host.value].name, errno_text(held.error)),
                                "widen --port-range, or name a port with --master-port"}});
  }
  master_port_ = held.port;
  begin_rendezvous(wanted.generation);
  event(core::PortReserved{wanted.generation});
}

void Controller::begin_rendezvous(Generation generation) {
  const auto facts = fleet_.facts();
  std::vector<RendezvousHub::Member> members;
  for (const auto& seat : placement_.seats) {
    members.push_back({seat, job_.hosts.hosts[seat.host.value].name,
                       core::address_of(seat.host, facts, job_).value_or(std::string{})});
  }
  rendezvous_.begin(generation, members);
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
  const auto& seat = placement_.seats[order.rank.value];
  const auto& session = fleet_.at(seat.host);
  const auto facts = fleet_.facts();
  const auto directory = session.job_directory();
  core::WorldFacts world;
  world.master_addr = core::address_of(placement_.seats.front().host, facts, job_).value_or(std::string{});
  world.master_port = std::to_string(master_port_);
  world.rendezvous = fmt::format("127.0.0.1:{}", session.door_port());
  world.key_file = directory + "/key";
  world.error_file = fmt::format("{}/rank.{}.error.json", directory, order.rank.value);
  world.address = core::address_of(seat.host, facts, job_).value_or(std::string{});

  const auto& program = job_.programs[seat.program];
  wire::Start start;
  start.worker = order.worker;
  start.generation = order.generation;
  start.argv = program.argv;
  start.directory = program.directory;
  start.env = core::worker_env(job_, placement_, order.rank, world, &session.facts());
  start.cpus = core::cpus_for(job_, session.facts(), seat.local_rank, seat.local_size)
                   .value_or(std::vector<std::uint32_t>{});
  start.stdin_mode = stdin_mode(seat);
  if (start.stdin_mode == wire::StdinMode::relay) input_.add(order.worker);
  fleet_.at(seat.host).send(start);
}

void Controller::perform(const core::SignalWorkers& order) {
  fleet_.send_all(wire::Signal{{}, order.number, order.deep});
}

void Controller::perform(const core::EndGeneration& order) {
  if (!order.culprit) return rendezvous_.end(order.generation, order.reason);
  const auto& host = job_.hosts.hosts[placement_.seats[order.culprit->value].host.value].name;
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
    facts.last_words = console_.last_words(order.outcome.cause->rank);
    facts.wall_clock = wall_clock_of(order.outcome.cause->at);
  }
  exit_code_ = order.outcome.exit_code;
  console_.close();
  console_.report(output::report_lines(job_, order.outcome, facts));
  console_.close();
  loop_.stop();
}

// ---- ^Z

void Controller::suspend() {
  // SIGSTOP, not SIGTSTP: workers lead sessions of their own, where the kernel discards a terminal stop.
  fleet_.send_all(wire::Signal{{}, SIGSTOP, false});
  fleet_.pause(true, [this] {
    ::raise(SIGSTOP);  // returns when somebody continues us
    fleet_.pause(false, [] {});
    fleet_.send_all(wire::Signal{{}, SIGCONT, false});
  });
}

}  // namespace trainrun
