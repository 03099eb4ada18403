#include "launcher/steering.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "host-discovery/host_key.h"
#include "launcher/base/fd.h"
#include "launcher/base/strings.h"
#include "launcher/control/server.h"
#include "launcher/core/shown_words.h"
#include "launcher/discovery/discovery.h"
#include "launcher/transport/own_names.h"

namespace trainrun {
namespace {

Error no_rank(int rank, std::size_t size) {
  return {Code::usage, fmt::format("there is no rank {} in a world of {}", rank, size),
          "see `trainrun ctl world`"};
}

std::string slots(int number) { return fmt::format("{} slot{}", number, number == 1 ? "" : "s"); }

constexpr Duration listens_after = milliseconds(100);

std::string shown_command_line() {
  auto text = read_file("/proc/self/cmdline", std::size_t{4} << 20).value_or("");
  if (text.ends_with('\0')) text.pop_back();  // the end of the last word, which may be empty
  std::vector<std::string> words;
  for (const auto word : split(text, '\0')) words.emplace_back(word);
  return core::shown_line(words);
}

// What of a job is fixed from its start on.
std::optional<Error> cannot_change(const JobSpec& job, control::Command::Kind kind) {
  using Kind = control::Command::Kind;
  if (job.elastic.enabled() || kind == Kind::world || kind == Kind::end) return std::nullopt;
  const bool hosts = kind == Kind::add_host || kind == Kind::remove_host;
  return Error{Code::usage,
               fmt::format("the job is not elastic: its {} from its start to its end",
                           hosts ? "hosts stay the same" : "ranks run"),
               "start it with --max-restarts, --min-np or a host discovery: man trainrun-elastic"};
}

Error too_few(const std::string& how) {
  return {Code::try_again, how + " the hosts cannot hold --min-np ranks, and the job would end all of them",
          "add a host first, or give --force"};
}

// As it is before it is added (again): nothing when it is not in the list.
std::optional<int> known_host(const core::JobMachine& machine, Host& wanted) {
  const auto key = hosts::host_key(wanted);
  for (const auto& view : machine.hosts()) {
    const auto& host = view.host;
    if (hosts::host_key(host) != key) continue;
    if (!wanted.slots_given) wanted.slots = host.slots;  // as many as it has
    if (!view.listed || view.leaves || view.used_again) return std::nullopt;
    return host.slots - view.stopped;
  }
  return std::nullopt;
}

std::string words_of_adding(std::optional<int> slots_before, const Host& host, std::size_t starting) {
  if (!slots_before) return host.name + " added";
  if (*slots_before == host.slots && starting > 0)  // none were, after one had ended
    return fmt::format("{} is there, with {}; starting {}", host.name, slots(host.slots),
                       counted(starting, "more rank"));
  if (*slots_before == host.slots)
    return fmt::format("nothing changes: {} is there, with {}", host.name, slots(host.slots));
  return fmt::format("{} has {} now", host.name, slots(host.slots));
}

// Of a host that the job does not need now.
std::string words_of_waiting(const core::JobMachine& machine, const Host& wanted) {
  const auto key = hosts::host_key(wanted);
  for (const auto& view : machine.hosts()) {
    if (hosts::host_key(view.host) != key || view.state != core::JobMachine::HostState::gone) continue;
    return ": it is dialled when the hosts that are there hold too few ranks";
  }
  return {};
}

}  // namespace

Steering::Steering(io::Loop& loop, const JobSpec& job, Controller& controller, Surroundings surroundings)
    : job_(job),
      controller_(controller),
      directories_(std::move(surroundings.control_directories)),
      listen_(loop) {
  if (!job.elastic.enabled()) {
    // Nobody asks a job that is over in a moment: its start does not pay for a socket.
    listen_.arm(io::Loop::now() + listens_after, [this, &loop] { listen(loop); });
    return;
  }
  if (job.elastic.discovery.kind != DiscoveryKind::none) {
    discovery_ = std::make_unique<Discovery>(
        loop, job.elastic.discovery,
        Discovery::Context{
            job.id, job.world_size(), job.elastic.min_np, job.elastic.max_np,
            // To Horovod localhost and 127.0.0.1 are two hosts.
            job.compat == Compat::horovod ? hosts::IsThisMachine() : transport::is_this_machine,
            core::shown_command(job.elastic.discovery.source)},
        std::move(surroundings.environment),
        Discovery::Handlers{
            [this](const HostSet& hosts) { controller_.event(core::HostsDiscovered{hosts.hosts}); },
            [this](const std::string& line) { controller_.say(line); },
            [this](const std::string& what) { controller_.event(core::DiscoveryProblem{what}); }});
    controller_.on_ask_for_hosts([this] { ask_for_hosts(); });
    discovery_->start();
  }
  listen(loop);
}

// XDG_RUNTIME_DIR may be set where nobody made the directory.
void Steering::listen(io::Loop& loop) {
  std::string why;
  for (const auto& directory : directories_) {
    control_ = std::make_unique<control::ControlServer>(
        loop, job_.id, directory, [this](const control::Command& command) { return answer(command); },
        shown_command_line);
    const auto listening = control_->listen();
    if (listening) return;
    why += (why.empty() ? "" : "; ") + listening.error().message;
  }
  // Few ask a job that they cannot change: what it lacks is told to those who want to know all.
  if (job_.elastic.enabled() || job_.verbose > 0)
    controller_.say("`trainrun ctl` will not reach this job: " + why);
}

Steering::~Steering() { controller_.on_ask_for_hosts({}); }

// The script is told what the brain knows.
void Steering::ask_for_hosts() {
  std::vector<std::string> current, failed;
  for (const auto& view : controller_.machine().hosts()) {
    if (view.state == core::JobMachine::HostState::ready)
      current.push_back(view.host.name);
    else if (!view.note.empty())
      failed.push_back(view.host.name);
  }
  discovery_->set_hosts(std::move(current), std::move(failed));
  discovery_->ask_now();
}

std::string Steering::world() const {
  const auto& machine = controller_.machine();
  control::WorldView view;
  const auto progress = machine.progress();
  view.generation = progress.generation;
  view.phase = core::to_string(machine.phase());
  view.job_id = job_.id;
  view.min_np = job_.elastic.min_np > 0 ? job_.elastic.min_np : job_.world_size();
  view.max_np = job_.elastic.max_np > 0 ? job_.elastic.max_np : job_.world_size();
  view.restarts = machine.restarts();
  view.restarts_used = machine.restarts_used(io::Loop::now());
  view.elastic = job_.elastic.enabled();
  view.restart_limit = view.elastic ? job_.elastic.limit.count : 0;
  const auto hosts = machine.hosts();
  const auto now = io::Loop::now();
  std::map<HostIndex, int> ranks;
  if (progress.newcomers_at && *progress.newcomers_at > now) view.newcomers_in = *progress.newcomers_at - now;
  const auto shown = [&](const core::WorkerView& worker) -> control::RankView {
    return {static_cast<int>(worker.seat.rank.value),
            worker.worker.value,
            hosts[worker.seat.host.value].host.name,
            static_cast<int>(worker.seat.local_rank),
            worker.pid,
            core::state_of(worker),
            now - worker.since};
  };
  for (const auto& worker : machine.workers()) {
    ++ranks[worker.seat.host];
    view.ranks.push_back(shown(worker));
  }
  for (const auto& newcomer : machine.newcomers()) view.newcomers.push_back(shown(newcomer));
  for (const auto& host : hosts) {
    if (host.leaves && host.state == core::JobMachine::HostState::gone) continue;  // the user has removed it
    std::optional<Duration> cooldown;
    if (host.used_again && *host.used_again > now) cooldown = *host.used_again - now;
    auto note = host.note;
    if (note.empty() && host.stopped > 0)
      note = fmt::format("{} not used: stopped by the user", counted(host.stopped, "slot"));
    view.hosts.push_back({host.host.name, core::state_of(host), host.host.slots, ranks[host.index],
                          std::move(note), cooldown});
  }
  return control::to_json(view);
}

std::string Steering::answer(const control::Command& command) {
  const auto& machine = controller_.machine();
  const auto size = machine.placement().seats.size();
  const auto not_now = [&machine](const std::string& hint) -> std::string {
    const bool ends = machine.phase() == core::JobMachine::Phase::running || !machine.still_changes();
    return control::error_reply(
        {Code::try_again,
         ends ? "the job is ending" : fmt::format("the job is {}", core::to_string(machine.phase())), hint});
  };
  using Kind = control::Command::Kind;
  if (const auto fixed = cannot_change(job_, command.kind)) return control::error_reply(*fixed);
  switch (command.kind) {
    case Kind::world:
      return world();
    case Kind::remove_host: {
      if (!machine.still_changes()) return not_now({});
      for (const auto& host : machine.hosts()) {
        if (hosts::name_key(host.host.name) != hosts::name_key(command.host.name)) continue;
        if (!command.force && (host.listed || host.kept) && !machine.holds_without(host.index))
          return control::error_reply(too_few("without " + host.host.name));
        controller_.event(core::RemoveHost{command.host.name});
        return control::ok_reply(fmt::format("{} leaves", host.host.name));
      }
      return control::error_reply({Code::usage,
                                   fmt::format("the job has no host {}", quoted(command.host.name)),
                                   "see `trainrun ctl world`"});
    }
    case Kind::add_host: {
      if (!machine.still_changes()) return not_now({});
      auto host = command.host;
      if (transport::is_this_machine(host)) host.user.clear();  // as in lists: it needs no login
      const auto before = known_host(machine, host);
      const auto loading = machine.newcomers().size();
      controller_.event(core::AddHosts{{host}});
      const auto load_now = machine.newcomers().size();
      return control::ok_reply(words_of_adding(before, host, load_now - std::min(loading, load_now)) +
                               (before ? "" : words_of_waiting(machine, host)));
    }
    case Kind::restart_world: {
      if (!machine.may_restart()) return not_now("ask again when a generation runs");
      const bool in_place = machine.restarts_alone();
      if (in_place && !command.force)
        return control::error_reply({Code::try_again,
                                     "all ranks would lose the state that they hold in memory",
                                     "restart one of them: trainrun ctl restart RANK, or give --force"});
      controller_.say("trainrun ctl restart: restarting all ranks");
      controller_.event(core::RestartWorld{});
      return control::ok_reply(
          in_place ? "restarting all ranks from the program's own checkpoint: no rank keeps its state"
                   : "restarting all ranks");
    }
    case Kind::restart_worker:
    case Kind::stop_worker: {
      if (!machine.may_restart()) return not_now("ask again when a generation runs");
      if (command.rank < 0 || static_cast<std::size_t>(command.rank) >= size)
        return control::error_reply(no_rank(command.rank, size));
      const Rank rank{static_cast<std::uint32_t>(command.rank)};
      if (!machine.may_restart(rank))
        return control::error_reply(
            {Code::usage, fmt::format("rank {} has ended", command.rank), "see `trainrun ctl world`"});
      if (command.kind == Kind::stop_worker && !command.force && !machine.holds_with_a_slot_less())
        return control::error_reply(too_few("with one slot less"));
      const bool alone = machine.restarts_alone();
      controller_.say(fmt::format("trainrun ctl {}: rank {}",
                                  command.kind == Kind::restart_worker ? "restart" : "stop", command.rank));
      if (command.kind == Kind::restart_worker)
        controller_.event(core::RestartWorker{rank});
      else
        controller_.event(core::StopWorker{rank});
      if (command.kind == Kind::stop_worker)
        return control::ok_reply(fmt::format("rank {} ends, and its slot is given up{}", command.rank,
                                             alone ? "" : "; restarting all ranks"));
      return control::ok_reply(alone ? fmt::format("restarting rank {}", command.rank)
                                     : "restarting all ranks: this program cannot recover in place");
    }
    case Kind::end:
      controller_.user_signal(SIGTERM, true);
      return control::ok_reply("ending the job");
  }
  return control::error_reply({Code::internal, "an unknown command", {}});
}

}  // namespace trainrun
