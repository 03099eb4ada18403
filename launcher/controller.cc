#include "launcher/controller.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "launcher/base/check.h"
#include "launcher/io/clock.h"
#include "launcher/io/turn.h"

namespace trainrun {
namespace {

// Of a rank that ends: what it printed within this time it printed for that.
constexpr Duration fresh_words = seconds(3);

// How long ranks may wait in an operation before it is told who has not come: as Horovod's stall check, and
// before a world that hangs is ended.
Duration stall_after(const JobSpec& job) {
  constexpr Duration as_horovod = seconds(60);
  const auto& hang = job.elastic.hang_timeout;
  return hang ? std::min<Duration>(as_horovod, *hang / 2) : as_horovod;
}

}  // namespace

Controller::Controller(io::Loop& loop, JobSpec job, const core::Placement& first, std::string key)
    : loop_(loop),
      job_(std::move(job)),
      machine_(job_, first),
      console_(
          loop, job_, output::look_at_terminal(),
          // The end of stdout is seen in the middle of other work, which is finished first.
          {[this] { fleet_.pay_credit(); }, [this] { loop_.post([this] { event(core::OutputClosed{}); }); }}),
      rendezvous_(
          loop, key,
          [this](HostIndex host, StreamId stream, std::string bytes, bool end) {
            if (auto* session = fleet_.find(host))
              session->send(wire::StreamData{stream, std::move(bytes), end});
          },
          members(),
          [this](HostIndex host, StreamId stream, std::uint64_t bytes) {
            if (auto* session = fleet_.find(host)) session->send(wire::StreamTaken{stream, bytes});
          },
          [this](HostIndex host, const wire::OpenStream& order) {
            if (auto* session = fleet_.find(host)) session->send(order);
          },
          [this](HostIndex host, const wire::BreakConnections& order) {
            if (auto* session = fleet_.find(host)) session->send(order);
          }),
      fleet_(loop, job_, first, key,
             {[this](HostIndex host) {
                const auto& facts = fleet_.at(host).facts();
                event(core::HostReady{host, std::make_shared<const wire::HostFacts>(facts)});
              },
              [this](HostIndex host, Error error) {
                rendezvous_.host_gone(host);
                event(core::HostFailed{host, std::move(error)});
              },
              [this](HostIndex host, Session::Loss loss) {
                rendezvous_.host_gone(host);
                lost_agent_here_ = lost_agent_here_ || fleet_.is_local(host);
                event(core::HostLost{host, std::move(loss.reason), loss.heard, loss.gave_us_up, loss.closed});
                some_have_ended();
                lost_to_exchange(host);
              },
              [this](HostIndex host, const wire::Frame& frame) { message(host, frame); },
              [this](HostIndex host, const wire::Stopped& stopped) {
                rendezvous_.host_gone(host);
                event(core::HostStopped{host, stopped.leftovers, stopped.killed, stopped.names});
              },
              [this](const std::string& text) {
                if (job_.verbose > 0) console_.say(text);
              },
              [this](HostIndex host) {
                // Mostly the answer is here before the brain wants it.
                if (host == likely_first_ && world_.generation().value == 0 &&
                    job_.torch_store == TorchStore::rank0)
                  fleet_.at(host).send(port_.ask(host, Generation{1}));
              }},
             transports_for(loop, job_)),
      input_(loop,
             [this](WorkerId worker, const std::string& bytes, bool end) {
               if (const auto* seat = machine_.seat_of(worker))
                 fleet_.at(seat->host).send(wire::Stdin{worker, bytes, end});
             }),
      world_(job_),
      likely_first_(first.seats.empty() ? HostIndex{0} : first.seats.front().host),
      port_(job_),
      hang_(job_.elastic.hang_timeout),
      life_(loop),
      stall_(stall_after(job_)),
      stalled_(loop),
      wanted_(loop) {}

Controller::~Controller() = default;

Result<void> Controller::start() {
  if (auto opened = console_.open_files(); !opened) return opened;
  event(core::Begin{});
  return {};
}

void Controller::event(const core::JobEvent& happened) {
  const auto now = io::Loop::now();
  const auto actions = machine_.step(happened, now);
  if (journal_) journal_->step(now, happened, actions);
  for (const auto& action : actions) {
    std::visit([this](const auto& it) { perform(it); }, action);
  }
#ifndef NDEBUG
  const auto broken = machine_.broken_invariant();
  if (!broken.empty()) check_failed(broken.c_str(), __FILE__, __LINE__);
#endif
  console_.progress(machine_.progress());
}

// ---- what agents say

const core::Seat* Controller::seat_on(HostIndex host, WorkerId worker) const {
  const auto* seat = machine_.seat_of(worker);
  return seat == nullptr || seat->host != host ? nullptr : seat;
}

void Controller::message(HostIndex host, const wire::Frame& frame) {
  const auto handle = [&]<class Message>(const Message*, auto&& work) {
    const auto message = wire::from_frame<Message>(frame);
    if (!message) return;
    if constexpr (requires { message->worker; }) {
      if (seat_on(host, message->worker) == nullptr) return;
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
    case wire::ErrorFile::type:
      return handle(static_cast<wire::ErrorFile*>(nullptr), [this](const auto& it) {
        if (auto error = output::read_recorded_error(it.text)) recorded_[it.worker] = std::move(*error);
      });
    case wire::Exited::type:
      return exited(host, frame);
    case wire::Finished::type:
      return handle(static_cast<wire::Finished*>(nullptr), [this](const auto& it) {
        console_.worker_finished(it.worker);
        event(core::WorkerFinished{it.worker, core::sounds_like_lost_peer(words_of(it.worker))});
      });
    case wire::Swept::type:
      return handle(static_cast<wire::Swept*>(nullptr), [this, host](const auto& it) {
        if (it.stuck > 0)
          console_.say(
              fmt::format("{}: {} of a dead rank's processes did not end even by SIGKILL (stuck in the "
                          "kernel, or another user's?)",
                          job_.hosts.hosts[host.value].name, it.stuck));
        // 0: a sweep that nobody waits for.
        if (it.sequence != 0) event(core::HostSwept{host, Generation{it.sequence}, it.leftovers, it.killed});
      });
    case wire::Leaving::type:
      return handle(static_cast<wire::Leaving*>(nullptr), [this, host](const auto& it) {
        event(core::HostLeaving{host, it.reason});
      });
    case wire::Inspected::type:
      return handle(static_cast<wire::Inspected*>(nullptr),
                    [this, host](const auto& it) { inspected(host, it); });
    case wire::InspectionDone::type:
      return handle(static_cast<wire::InspectionDone*>(nullptr), [this, host](const auto& it) {
        if (!hang_.awaits(it.sequence)) return;
        // Once all were seen.
        auto odd = hang_.compare(world_.placement().seats.size());
        if (!store_.awaited().empty()) odd.reset();  // it is known for whom the others wait
        event(core::InspectionDone{host, std::move(odd)});
      });
    case wire::StdinWanted::type:
      return handle(static_cast<wire::StdinWanted*>(nullptr),
                    [this](const auto& it) { input_.wanted(it.worker, it.bytes); });
    case wire::StdinTaken::type:
      return handle(static_cast<wire::StdinTaken*>(nullptr),
                    [this](const auto& it) { input_.taken(it.worker, it.bytes); });
    case wire::Note::type:
      return handle(static_cast<wire::Note*>(nullptr), [this, host](const auto& it) {
        console_.say(job_.hosts.hosts[host.value].name + ": " + it.text);
      });
    case wire::StoreSeen::type:
      return handle(static_cast<wire::StoreSeen*>(nullptr),
                    [this](const auto& it) { tell(store_.seen(it, io::Loop::now())); });
    case wire::PortHeld::type:
      return handle(static_cast<wire::PortHeld*>(nullptr), [this, host](const auto& it) {
        port_.answered(host, it);
        use_port();
      });
    case wire::StreamOpened::type:
      return handle(static_cast<wire::StreamOpened*>(nullptr), [this, host](const auto& it) {
        const auto* seat = seat_on(host, it.owner);
        rendezvous_.opened(host, it.stream, it.kind,
                           seat == nullptr ? std::nullopt : std::optional(seat->rank));
      });
    case wire::StreamData::type:
      return handle(static_cast<wire::StreamData*>(nullptr), [this, host](const auto& it) {
        rendezvous_.received(host, it.stream, it.bytes, it.end);
      });
    case wire::StreamRefused::type:
      return handle(static_cast<wire::StreamRefused*>(nullptr),
                    [this, host](const auto& it) { rendezvous_.refused(host, it); });
    case wire::StreamTaken::type:
      return handle(static_cast<wire::StreamTaken*>(nullptr),
                    [this, host](const auto& it) { rendezvous_.taken(host, it.stream, it.bytes); });
    case wire::Aborted::type:
      return handle(static_cast<wire::Aborted*>(nullptr),
                    [this, host](const auto& it) { aborted(host, it); });
    case wire::ExchangeLost::type:
    case wire::Gather::type:
    case wire::Ask::type:
    case wire::Answer::type:
      return exchanges(host, frame);
    default:
      return;  // a message of a newer agent: the protocol version makes that impossible, and it harms nothing
  }
}

void Controller::output(HostIndex host, const wire::Frame& frame) {
  const auto message = wire::from_frame<wire::OutputBytes>(frame);
  if (!message) return;
  auto& session = fleet_.at(host);
  fleet_.owe_credit(host, message->bytes.size());
  if (seat_on(host, message->worker) != nullptr) {
    if (machine_.is_member(message->worker)) sign_of_life();
    hang_.printed(message->worker, io::Loop::now());
    if (message->stream == wire::Output::err) last_stderr_[message->worker] = io::Loop::now();
    console_.worker_output(message->worker, message->stream, message->bytes);
  }
  if (console_.takes_more()) session.pay_credit();
}

// Why it ended, as far as it said so: the last one says it best.
std::vector<std::string> Controller::words_of(WorkerId worker) const {
  auto words = console_.last_words(worker);
  const auto recorded = recorded_.find(worker);
  if (recorded != recorded_.end())
    words.insert(words.end(), recorded->second.what.rbegin(), recorded->second.what.rend());
  return words;
}

void Controller::exited(HostIndex host, const wire::Frame& frame) {
  const auto message = wire::from_frame<wire::Exited>(frame);
  const auto* seat = message ? seat_on(host, message->worker) : nullptr;
  if (seat == nullptr) return;
  const auto rank = seat->rank;
  const bool member = machine_.is_member(message->worker);
  input_.remove(message->worker);
  const auto when = fleet_.at(host).map_time(message->at_ns);
  auto status = ExitStatus::from_wait(message->raw_status);
  if (message->in_mpi && status.success())
    status = ExitStatus::deserted("within MPI: it had called MPI_Init, and not MPI_Finalize");
  if (member && status.success() && rendezvous_.awaited_by_horovod(world_.generation(), rank))
    status = ExitStatus::deserted(std::string(core::without_hvd_init));
  if (status.success()) tell(store_.ended(message->worker, io::Loop::now()));
  const auto words = words_of(message->worker);
  // One that it survived may stand there since long ago.
  const auto spoke = last_stderr_.find(message->worker);
  const bool raised = console_.raised(message->worker) && spoke != last_stderr_.end() &&
                      io::Loop::now() - spoke->second < fresh_words;
  event(core::WorkerExited{message->worker, status, when.at, when.error, message->out_of_memory,
                           words.empty() ? std::string{} : words.back(), message->signalled,
                           core::sounds_like_lost_peer(words), raised});
  some_have_ended();
  if (!member) return;
  // The others of a job that goes on without it are not to wait for it either.
  if (!status.success() && job_.elastic.on_failure != OnFailure::ignore) return;
  if (seat_on(host, message->worker) == nullptr) return;
  if (status.success()) {
    rendezvous_.member_ended_well(world_.generation(), rank);
    perform(exchange_.left(world_.generation(), rank));
  } else {
    go_on_without(rank, status.describe());
  }
  rendezvous_.member_left(world_.generation(), rank);
}

// ---- ^Z

void Controller::suspend() {
  if (std::exchange(suspending_, true)) return;
  // SIGSTOP, not SIGTSTP: workers lead sessions of their own, where the kernel discards a terminal stop.
  fleet_.send_all(wire::Signal{{}, SIGSTOP, false});
  // A turn later: a loss may be all that ends the wait. With the last host the job is over, and is not
  // stopped before it has said so: its last lines may still be on their way to a disk.
  fleet_.pause(true, [this, was_over = finish_.has_value()] {
    loop_.post([this, was_over] {
      if (finish_ && !was_over)
        suspending_ = false;
      else
        stop_here();
    });
  });
}

void Controller::stop_here() {
  suspending_ = false;
  const auto from = io::real_now();
  console_.wipe();
  ::raise(SIGSTOP);  // returns when somebody continues us
  io::stood_still(from);
  io::Turn::leave_out(io::real_now() - from);
  fleet_.pause(false, [] {});
  fleet_.send_all(wire::Signal{{}, SIGCONT, false});
}

}  // namespace trainrun
