#include "launcher/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/base/fault.h"
#include "launcher/base/strings.h"
#include "launcher/core/binding.h"
#include "launcher/core/master_port.h"
#include "launcher/core/preload.h"
#include "launcher/transport/factory.h"
#include "launcher/transport/local.h"
#include "launcher/transport/own_names.h"

namespace trainrun {
namespace {

// Output that may be under way from all hosts together; each gets a fair part, enough to keep a fast link
// busy, and on a slow one not so much that what follows, as a rank's end, comes late.
constexpr std::uint64_t credit_in_all = 32u << 20;
constexpr std::uint64_t least_credit = 128u << 10;
constexpr std::uint64_t most_credit = 1u << 20;
constexpr std::size_t most_words = 300;  // of what a host said last

// A dial gives up a little before the job's start does: it knows what it waited for.
Duration limit_of_a_dial(Duration start_timeout) {
  return start_timeout - std::min<Duration>(start_timeout / 8, seconds(1));
}

std::uint32_t in_ms(Duration duration) {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(std::chrono::duration_cast<milliseconds>(duration).count(), 1, UINT32_MAX));
}

}  // namespace

namespace {

// For -v. What ssh's configuration says of user and port is ssh's affair.
std::string way_to(const JobSpec& job, const Host& host) {
  const auto kind = transport_kind(job, host);
  if (kind == TransportKind::local) return host.name + ": this host, without ssh";
  auto where = host.user.empty() ? host.name : host.user + "@" + host.name;
  if (const auto port = host.port != 0 ? host.port : job.ssh.port; port != 0)
    where += fmt::format(":{}", port);
  return fmt::format("{}: reached by {}{}", host.name,
                     kind == TransportKind::openssh ? "OpenSSH's ssh" : "ssh",
                     where == host.name ? "" : " as " + where);
}

}  // namespace

TransportKind transport_kind(const JobSpec& job, const Host& host) {
  if (job.transport != TransportKind::automatic) return job.transport;
  return transport::is_this_machine(host) ? TransportKind::local : TransportKind::ssh;
}

Fleet::Fleet(io::Loop& loop, const JobSpec& job, const core::Placement& first, std::string key,
             Handlers handlers, MakeTransport make)
    : loop_(loop),
      job_(job),
      key_(std::move(key)),
      handlers_(std::move(handlers)),
      make_transport_(std::move(make)) {
  for (const auto& seat : first.seats) seats_[seat.host].push_back(seat);
}

void Fleet::add_session(HostIndex host) {
  Session::Handlers to{[this, host] {
                         if (const auto good = suits(host); !good) {
                           sessions_.at(host)->close();
                           return handlers_.failed(host, good.error());
                         }
                         handlers_.ready(host);
                       },
                       [this, host](Error error) {
                         if (error.code != Code::bootstrap) return handlers_.failed(host, std::move(error));
                         with_last_words(host, [this, host, error](const std::string& words) {
                           auto whole = error;
                           whole.message += words;
                           handlers_.failed(host, std::move(whole));
                         });
                       },
                       [this, host](Session::Loss loss) {
                         if (loss.gave_us_up) return handlers_.lost(host, std::move(loss));
                         with_last_words(host, [this, host, loss](const std::string& words) {
                           auto whole = loss;
                           whole.reason += words;
                           handlers_.lost(host, std::move(whole));
                         });
                       },
                       [this, host](const wire::Frame& frame) { handlers_.message(host, frame); },
                       [this, host](const wire::Stopped& stopped) { handlers_.stopped(host, stopped); }};
  auto session =
      std::make_unique<Session>(loop_, job_.hosts.hosts[host.value].name, is_local(host), std::move(to));
  auto& place = sessions_[host];
  if (place) {
    place->close();
    retired_.push_back(std::move(place));
    loop_.post([this] { retired_.clear(); });
  }
  place = std::move(session);
}

Fleet::~Fleet() = default;

bool Fleet::is_local(HostIndex host) const {
  return transport_kind(job_, job_.hosts.hosts[host.value]) == TransportKind::local;
}

Session* Fleet::find(HostIndex host) {
  const auto it = sessions_.find(host);
  return it == sessions_.end() ? nullptr : it->second.get();
}

transport::Transport& Fleet::transport_of(TransportKind kind) {
  auto& transport = transports_[kind];
  if (!transport) transport = make_transport_(kind);
  return *transport;
}

Fleet::MakeTransport transports_for(io::Loop& loop, const JobSpec& job) {
  return [&loop, &job](TransportKind kind) {
    switch (kind) {
      case TransportKind::local:
        return transport::make_local_transport(loop);
      case TransportKind::openssh:
        return transport::make_openssh_transport(loop, job.ssh);
      case TransportKind::automatic:
      case TransportKind::ssh:
        break;
    }
    return job.transport == TransportKind::automatic
               ? transport::make_either_ssh(loop, job.ssh, job.verbose > 2)
               : transport::make_ssh_transport(loop, job.ssh, job.verbose > 2);
  };
}

std::string Fleet::last_words(HostIndex host) const {
  const auto it = stderr_.find(host);
  if (it == stderr_.end() || !it->second.text) return {};
  auto text = it->second.text();
  if (text.starts_with(it->second.before)) text.erase(0, it->second.before.size());
  std::string said;
  for (const auto line : split(text, '\n'))
    if (!trim(line).empty()) said += (said.empty() ? "" : "; ") + std::string(trim(line));
  said.erase(0, said.size() - std::min(said.size(), most_words));
  return said.empty() ? std::string{} : "; its last words: " + quoted(said, most_words);
}

// In a later turn: what was written to stderr before the Link was closed may still wait to be read.
void Fleet::with_last_words(HostIndex host, std::function<void(const std::string&)> tell) {
  const auto* session = find(host);
  ++untold_;
  loop_.post([this, host, session, tell = std::move(tell)] {
    if (find(host) == session) tell(last_words(host));
    if (--untold_ > 0) return;
    if (const auto next = std::exchange(when_told_, nullptr)) next();
  });
}

void Fleet::dial(HostIndex host) {
  if (wanted_.empty()) loop_.post([this] { dial_wanted(); });
  wanted_.push_back(host);
  add_session(host);
}

void Fleet::dial_wanted() {
  std::map<TransportKind, std::vector<transport::DialRequest>> batches;
  for (const auto host : std::exchange(wanted_, {})) {
    if (sessions_.at(host)->state() != Session::State::dialling) continue;
    const auto dial = ++dials_[host];
    const auto& name = job_.hosts.hosts[host.value];
    batches[transport_kind(job_, name)].push_back(
        {name, limit_of_a_dial(job_.start_timeout),
         [this, host, dial](Result<transport::Dialled> result) { dialled(host, dial, std::move(result)); }});
  }
  for (const bool local : {true, false}) {
    for (auto& [kind, batch] : batches)
      if ((kind == TransportKind::local) == local) transport_of(kind).dial_all(std::move(batch));
  }
}

void Fleet::dialled(HostIndex host, std::uint32_t dial, Result<transport::Dialled> result) {
  auto& session = *sessions_.at(host);
  // Given up, or dialled again meanwhile; the Link closes here.
  if (dials_[host] != dial || session.state() != Session::State::dialling) return;
  if (!result) {
    session.close();
    // 124 says that --timeout passed, and nothing else.
    if (result.error().code == Code::timeout) result.error().code = Code::unreachable;
    return handlers_.failed(host, result.error());
  }
  const auto& name = job_.hosts.hosts[host.value];
  if (!result->noise.empty()) handlers_.detail(name.name + ": the login shell printed: " + result->noise);
  handlers_.detail(result->how.empty() ? way_to(job_, name) : result->how);
  stderr_[host] = {result->last_words, result->last_words ? result->last_words() : std::string{}};
  session.connected(std::move(result->link), opening_for(host));
  handlers_.greeted(host);
}

std::vector<wire::OpenDoor> Fleet::doors() const {
  const auto any = core::ports_of_doors(job_);
  const auto of_store = job_.master_port == 0 ? job_.ports : PortRange{job_.master_port, job_.master_port};
  std::vector<wire::OpenDoor> doors;
  for (const auto kind : core::doors_of(job_)) {
    const auto& ports = kind == wire::DoorKind::torch_store ? of_store : any;
    doors.push_back({ports.first, ports.last, kind});
  }
  return doors;
}

Session::Opening Fleet::opening_for(HostIndex host) const {
  Session::Opening opening;
  const auto hosts = std::max<std::size_t>(sessions_.size(), 1);
  const bool may_grow = job_.elastic.discovery.kind != DiscoveryKind::none;
  opening.greeting.host_timeout_ms = in_ms(job_.host_timeout);
  opening.greeting.want_addresses = hosts > 1 || may_grow || !job_.network_interface.empty();
  opening.greeting.want_topology = core::needs_topology(job_);
  opening.greeting.faults = fault::configured();
  auto& order = opening.job;
  order.job_id = job_.id;
  order.host_name = job_.hosts.hosts[host.value].name;
  order.host = host;
  order.key = hex(key_) + "\n";  // as rendezvous/job_key reads it
  order.credit = std::clamp(credit_in_all / hosts, least_credit, most_credit);
  order.grace_ms = in_ms(job_.grace);
  order.elastic = job_.elastic.enabled();
  order.env = job_.env;
  add_programs(host, order);
  // The world that is formed later may put any part here.
  order.pmix = job_.compat == Compat::open_mpi    ? wire::OfferPmix::always
               : job_.compat != Compat::automatic ? wire::OfferPmix::never
               : job_.as_mpi_launcher             ? wire::OfferPmix::interpreters_too
                                                  : wire::OfferPmix::by_program;
  order.pmix_library = job_.pmix_library;
  if (job_.compat != Compat::none && job_.compat != Compat::horovod)
    for (const auto& program : job_.programs) order.commands.push_back({program.argv, program.directory});
  order.preload = core::preload_of(job_);
  opening.doors = doors();
  for (const auto& program : job_.programs)
    opening.found_here.insert(opening.found_here.end(), program.found.begin(), program.found.end());
  return opening;
}

// Those that the agent is to look for.
void Fleet::add_programs(HostIndex host, wire::OpenJob& order) const {
  const auto look_for = [&](const std::string& path, const Program& program, const std::string& script) {
    for (std::size_t i = 0; i < order.programs.size(); ++i)
      if (order.programs[i] == path && order.directories[i] == program.directory &&
          (order.scripts[i] == script || script.empty()))
        return;
    order.programs.push_back(path);
    order.directories.push_back(program.directory);
    order.scripts.push_back(script);
  };
  const auto need = [&](const Program& program) {
    if (program.argv.empty()) return;  // --check-hosts without a program
    look_for(program.argv.front(), program, program.script);
    for (const auto& found : program.found) look_for(found.path, program, "");
  };
  if (const auto seats = seats_.find(host); seats != seats_.end()) {
    const Program* before = nullptr;
    for (const auto& seat : seats->second) {
      const auto* program = &job_.programs[seat.program];
      if (program != before) need(*program);
      before = program;
    }
  }
  if (seats_.empty())  // any part may come to any host
    for (const auto& program : job_.programs) need(program);
}

bool may_share_a_machine(const JobSpec& job) {
  return job.oversubscribe || job.transport == TransportKind::local || job.compat == Compat::horovod;
}

Error same_machine(const JobSpec& job, HostIndex host, HostIndex other) {
  const auto& hosts = job.hosts.hosts;
  const auto& first = hosts[std::min(host, other).value];
  return {Code::config,
          fmt::format("{}: is the same machine as {}: its cores and GPUs would be given twice",
                      hosts[host.value].name, hosts[other.value].name),
          fmt::format("name it once, as {}:{}, or add --oversubscribe if that is meant", first.name,
                      hosts[host.value].slots + hosts[other.value].slots)};
}

Result<void> Fleet::is_a_host_of_its_own(HostIndex host) {
  if (may_share_a_machine(job_)) return {};
  const auto& place = sessions_.at(host)->facts().place;
  auto other = machines_.note(host, place);
  if (other && find(*other)->state() != Session::State::ready) {  // lost since, or told to stop
    machines_.forget(*other);
    other = machines_.note(host, place);
  }
  if (other) return tl::unexpected(same_machine(job_, host, *other));
  return {};
}

Result<void> Fleet::suits(HostIndex host) {
  if (const auto good = is_a_host_of_its_own(host); !good) return good;
  const auto& facts = sessions_.at(host)->facts();
  const auto& name = job_.hosts.hosts[host.value].name;
  const auto named = [&name](Error error) {
    error.message = name + ": " + error.message;
    return tl::unexpected(std::move(error));
  };
  const core::FactsByHost alone{{host, &facts}};
  if (const auto address = core::address_of(host, alone, job_); !address)
    return tl::unexpected(address.error());
  // The slots of an elastic job's hosts change: that they suit is seen where worlds are planned.
  const auto seats = seats_.find(host);
  if (seats == seats_.end()) return {};
  if (const auto good = core::slots_suit(job_, facts, seats->second.front().local_size); !good)
    return named(good.error());
  for (const auto& seat : seats->second) {
    if (job_.rank_file.empty()) continue;
    if (const auto cpus = core::cpus_of(job_, facts, seat, seat.local_size); !cpus)
      return named(cpus.error());
  }
  return {};
}

core::FactsByHost Fleet::facts() const {
  core::FactsByHost all;
  for (const auto& [host, session] : sessions_)
    if (session->state() == Session::State::ready) all[host] = &session->facts();
  return all;
}

void Fleet::abandon(HostIndex host) {
  if (auto* session = find(host)) session->close();
}

std::vector<core::LateHost> Fleet::late() const {
  std::vector<core::LateHost> all;
  for (const auto& [host, session] : sessions_)
    if (const auto since = session->late_since())
      all.push_back({host, *since});
    else if (const auto silent = session->silent_since())
      all.push_back({host, *silent, true});
  return all;
}

void Fleet::ask_all() {
  for (const auto& [host, session] : sessions_) session->ask();
}

void Fleet::owe_credit(HostIndex host, std::uint64_t bytes) {
  at(host).owe_credit(bytes);
  owed_.insert(host);
}

// A host that is owed too little for a message comes back with its next bytes.
void Fleet::pay_credit() {
  for (const auto host : std::exchange(owed_, {})) at(host).pay_credit();
}

void Fleet::pause(bool on, std::function<void()> done) {
  // One that is being greeted counts our silence as well; one without a Link has heard it at once.
  const auto waiting = std::make_shared<std::size_t>(sessions_.size());
  if (sessions_.empty()) return done();
  for (const auto& [host, session] : sessions_) {
    session->pause(on, [this, waiting, done] {
      if (--*waiting > 0) return;
      untold_ == 0 ? done() : void(when_told_ = done);
    });
  }
}

}  // namespace trainrun
