#include "launcher/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/base/fault.h"
#include "launcher/base/strings.h"
#include "launcher/core/binding.h"
#include "launcher/core/replan.h"
#include "launcher/core/script.h"
#include "launcher/transport/factory.h"
#include "launcher/transport/local.h"
#include "launcher/transport/own_names.h"

namespace trainrun {
namespace {

// Output that may be under way from all hosts together; each gets a fair part, enough to keep a fast link
// busy.
constexpr std::uint64_t credit_in_all = 32u << 20;
constexpr std::uint64_t least_credit = 128u << 10;
constexpr std::uint64_t most_credit = 4u << 20;

std::uint32_t in_ms(Duration duration) {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(std::chrono::duration_cast<milliseconds>(duration).count(), 1, UINT32_MAX));
}

}  // namespace

TransportKind transport_kind(const JobSpec& job, const Host& host) {
  if (job.transport != TransportKind::automatic) return job.transport;
  // A port or another user's name of its own means another sshd, even on this address (a container, a port
  // forward).
  if (host.port != 0 || !host.user.empty()) return TransportKind::ssh;
  return transport::is_this_host(host.name) ? TransportKind::local : TransportKind::ssh;
}

Fleet::Fleet(io::Loop& loop, const JobSpec& job, core::Placement first, std::string key, Handlers handlers)
    : loop_(loop),
      job_(job),
      first_(std::move(first)),
      key_(std::move(key)),
      handlers_(std::move(handlers)) {}

void Fleet::add_session(HostIndex host) {
  Session::Handlers to{[this, host] {
                         if (const auto good = suits(host); !good) {
                           sessions_.at(host)->close();
                           return handlers_.failed(host, good.error());
                         }
                         handlers_.ready(host);
                       },
                       [this, host](Error error) { handlers_.failed(host, std::move(error)); },
                       [this, host](std::string reason) { handlers_.lost(host, std::move(reason)); },
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

transport::Transport& Fleet::transport_for(HostIndex host) {
  const auto kind = transport_kind(job_, job_.hosts.hosts[host.value]);
  auto& transport = transports_[kind];
  if (!transport) {
    switch (kind) {
      case TransportKind::local:
        transport = transport::make_local_transport(loop_);
        break;
      case TransportKind::openssh:
        transport = transport::make_openssh_transport(loop_, job_.ssh);
        break;
      case TransportKind::automatic:
      case TransportKind::ssh:
        transport = transport::make_ssh_transport(loop_, job_.ssh);
        break;
    }
  }
  return *transport;
}

std::string Fleet::last_words(HostIndex host) const {
  const auto it = last_words_.find(host);
  const auto words = it == last_words_.end() || !it->second ? std::string{} : it->second();
  const auto said = trim(words);
  return said.empty() ? std::string{} : fmt::format(" (it said: {})", quoted(said, 300));
}

void Fleet::dial(HostIndex host) {
  if (wanted_.empty()) loop_.post([this] { dial_wanted(); });
  wanted_.push_back(host);
  add_session(host);
}

void Fleet::dial_wanted() {
  const auto wanted = std::exchange(wanted_, {});
  for (const bool local : {true, false}) {
    for (const auto host : wanted) {
      if (is_local(host) == local && sessions_.at(host)->state() == Session::State::dialling) dial_now(host);
    }
  }
}

void Fleet::dial_now(HostIndex host) {
  const auto dial = ++dials_[host];
  const auto done = [this, host, dial](Result<transport::Dialled> result) {
    auto& session = *sessions_.at(host);
    // Given up, or dialled again meanwhile; the Link closes here.
    if (dials_[host] != dial || session.state() != Session::State::dialling) return;
    if (!result) {
      session.close();
      return handlers_.failed(host, result.error());
    }
    if (!result->noise.empty())
      handlers_.detail(job_.hosts.hosts[host.value].name + ": the login shell printed: " + result->noise);
    last_words_[host] = std::move(result->last_words);
    session.connected(std::move(result->link), setup_for(host), job_.ports.first, job_.ports.last);
    handlers_.greeted(host);
  };
  transport_for(host).dial(job_.hosts.hosts[host.value], job_.start_timeout, done);
}

wire::Setup Fleet::setup_for(HostIndex host) const {
  wire::Setup setup;
  setup.job_id = job_.id;
  setup.host_name = job_.hosts.hosts[host.value].name;
  setup.host = host;
  setup.key = hex(key_) + "\n";  // as rendezvous/job_key reads it
  const auto hosts = std::max<std::size_t>(sessions_.size(), 1);
  setup.credit = std::clamp(credit_in_all / hosts, least_credit, most_credit);
  setup.host_timeout_ms = in_ms(job_.host_timeout);
  setup.grace_ms = in_ms(job_.grace);
  setup.elastic = job_.elastic.enabled();
  setup.faults = fault::configured();
  const bool may_grow = job_.elastic.discovery.kind != DiscoveryKind::none;
  setup.want_addresses = hosts > 1 || may_grow || !job_.network_interface.empty();
  setup.want_topology = job_.bind_to != BindTo::none;
  setup.env = job_.env;
  const auto need = [&](const Program& program) {
    if (program.argv.empty()) return;  // --check-hosts without a program
    if (!setup.programs.empty() && setup.programs.back() == program.argv.front() &&
        setup.directories.back() == program.directory &&
        setup.scripts.back() == core::script_of(program.argv))
      return;
    setup.programs.push_back(program.argv.front());
    setup.directories.push_back(program.directory);
    setup.scripts.push_back(core::script_of(program.argv));
  };
  for (const auto& seat : first_.seats)
    if (seat.host == host) need(job_.programs[seat.program]);
  if (first_.seats.empty())  // any part may come to any host
    for (const auto& program : job_.programs) need(program);
  return setup;
}

Result<void> Fleet::suits(HostIndex host) const {
  const auto& facts = sessions_.at(host)->facts();
  const auto& name = job_.hosts.hosts[host.value].name;
  const auto named = [&name](Error error) {
    error.message = name + ": " + error.message;
    return tl::unexpected(std::move(error));
  };
  const core::FactsByHost alone{{host, &facts}};
  if (const auto address = core::address_of(host, alone, job_); !address)
    return tl::unexpected(address.error());
  const auto check = [&](std::uint32_t slot, std::uint32_t slots) -> Result<void> {
    if (const auto gpus = core::gpus_suffice(job_, facts, slots); !gpus) return named(gpus.error());
    if (const auto cpus = core::cpus_for(job_, facts, slot, slots); !cpus) return named(cpus.error());
    return {};
  };
  for (const auto& seat : first_.seats) {
    if (seat.host != host) continue;
    if (auto good = check(seat.local_rank, seat.local_size); !good) return good;
  }
  if (!first_.seats.empty()) return {};
  const auto slots = static_cast<std::uint32_t>(core::slots_of(job_, job_.hosts.hosts[host.value]));
  for (std::uint32_t slot = 0; slot < slots; ++slot)
    if (auto good = check(slot, slots); !good) return good;
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

void Fleet::pay_credit() {
  for (const auto& [host, session] : sessions_) session->pay_credit();
}

void Fleet::pause(bool on, std::function<void()> done) {
  auto waiting = std::make_shared<int>(0);
  for (const auto& [host, session] : sessions_) *waiting += session->state() == Session::State::ready ? 1 : 0;
  if (*waiting == 0) return done();
  for (const auto& [host, session] : sessions_) {
    if (session->state() != Session::State::ready) continue;
    session->pause(on, [waiting, done] {
      if (--*waiting == 0) done();
    });
  }
}

}  // namespace trainrun
