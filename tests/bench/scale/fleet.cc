#include "tests/bench/scale/fleet.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <utility>
#include <variant>

namespace trainrun::bench {
namespace {

constexpr std::uint32_t wait_ms = 3'600'000;

JobSpec spec_of(std::uint32_t hosts, std::uint32_t ranks_a_host, Fleet::Kind kind) {
  JobSpec spec;
  spec.id = "0123456789abcdef";
  for (std::uint32_t i = 0; i < hosts; ++i) {
    Host host;
    host.name = fmt::format("node{}", i);
    host.slots = static_cast<int>(ranks_a_host);
    host.slots_given = true;
    spec.hosts.hosts.push_back(std::move(host));
  }
  const auto ranks = static_cast<int>(hosts * ranks_a_host);
  spec.programs = {{{"true"}, ranks, "/"}};
  if (kind == Fleet::Kind::fixed) return spec;
  spec.elastic.on_failure = OnFailure::restart_world;
  spec.elastic.min_np = spec.elastic.max_np = ranks;
  return spec;
}

// As of a host of eight GPUs.
std::shared_ptr<const wire::HostFacts> typical_facts() {
  wire::HostFacts facts;
  facts.hostname = "node";
  facts.ssh_connection = "10.255.0.1 40000 10.0.0.1 22";
  facts.interfaces = {{"lo", "127.0.0.1"}, {"eth0", "10.0.0.1"}, {"ib0", "10.128.0.1"}};
  facts.gpus = 8;
  return std::make_shared<const wire::HostFacts>(std::move(facts));
}

core::Placement placement_of(const JobSpec& spec) {
  if (spec.elastic.on_failure == OnFailure::restart_world) return {};
  auto placement = core::place(spec, Generation{1});
  return placement ? std::move(*placement) : core::Placement{};
}

std::string text_of(const rendezvous::Key& key) {
  return {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()};
}

}  // namespace

Fleet::Fleet(std::uint32_t hosts, std::uint32_t ranks_a_host, Kind kind)
    : spec_(spec_of(hosts, ranks_a_host, kind)),
      facts_(typical_facts()),
      machine_(spec_, placement_of(spec_)),
      hub_(loop_, text_of(key_),
           [this](HostIndex, StreamId stream, const std::string& bytes, bool) {
             members_[stream.value].inbox += bytes;
             bytes_to_members_ += bytes.size();
           },
           {.joined =
                [this](Generation generation, Rank rank) {
                  tell(core::MemberJoined{generation, rank});
                },
            .formed =
                [this](Generation generation, bool elastic) {
                  tell(core::WorldJoined{generation, elastic});
                },
            .broken = [this](Generation, const rendezvous::Verdict& it) { broken(rendezvous::describe(it)); },
            .waits = {},
            .pulse = {},
            .torch_waits = {},
            .torch_clash = {},
            .torch_awaits_beyond = {},
            .torch_refused = {},
            .horovod_waits = {},
            .horovod_refused = {},
            .horovod_elastic = {},
            .horovod_formed = {},
            .horovod_hopeless = {},
            .horovod_deserted = {},
            .horovod_unreachable = {}}) {}

void Fleet::broken(const std::string& what) {
  if (wrong_.empty()) wrong_ = what;
}

void Fleet::tell(const core::JobEvent& event) {
  ++told_;
  for (const auto& action : machine_.step(event, now_)) {
    if (const auto* dial = std::get_if<core::DialHost>(&action)) dialled_.push_back(dial->host);
    if (const auto* port = std::get_if<core::ReservePort>(&action)) port_wanted_ = port->generation;
    if (const auto* begin = std::get_if<core::BeginWorld>(&action)) perform(*begin);
    if (const auto* end = std::get_if<core::EndGeneration>(&action)) perform(*end);
    if (const auto* stop = std::get_if<core::StopHost>(&action)) stopping_.push_back(stop->host);
    if (const auto* finish = std::get_if<core::Finish>(&action)) outcome_ = finish->outcome;
    if (std::holds_alternative<core::SignalWorkers>(action)) broken("a worker was to be ended");
  }
  static_cast<void>(machine_.progress());
}

void Fleet::perform(const core::BeginWorld& order) {
  workers_ = order.workers;
  std::vector<RendezvousHub::Member> members;
  for (const auto& seat : order.placement.seats) {
    members.push_back({seat, spec_.hosts.hosts[seat.host.value].name,
                       fmt::format("10.{}.{}.1", seat.host.value / 256, seat.host.value % 256),
                       order.workers[seat.rank.value]});
    members_.push_back({.host = seat.host, .channel = {}, .inbox = {}, .outbox = {}});
  }
  hub_.begin(order.placement.generation, members);
}

void Fleet::perform(const core::EndGeneration& order) { hub_.end(order.generation, "the job ended"); }

std::uint64_t Fleet::heard() {
  const auto before = told_;
  loop_.context().restart();
  loop_.context().poll();
  if (told_ - before <= ranks()) broken("the brain did not hear of all who have joined");
  return told_ - before;
}

template <class Work>
void Fleet::members(Work work) {
  const auto before = cost_so_far();
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) work(rank, members_[rank]);
  cost_of_members_ = cost_of_members_ + (cost_so_far() - before);
}

void Fleet::exchange() {
  for (bool more = true; more && wrong_.empty();) {
    more = false;
    members([&](std::uint32_t, Member& member) {
      const auto in = std::exchange(member.inbox, {});
      member.read = in.size();
      if (!member.channel->receive(in)) broken("a member does not understand the rendezvous");
      member.outbox = member.channel->take_output();
      more = more || !in.empty() || !member.outbox.empty();
    });
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      auto& member = members_[rank];
      if (member.read > 0) hub_.taken(member.host, StreamId{rank}, member.read);
      const auto out = std::exchange(member.outbox, {});
      if (!out.empty()) hub_.received(member.host, StreamId{rank}, out, false);
    }
  }
}

template <class Reply, class Request>
void Fleet::ask(Request request) {
  members([&](std::uint32_t rank, Member& member) {
    if (member.channel->established()) return member.channel->send(rendezvous::encode({1, 1, request(rank)}));
    broken(fmt::format("rank {} did not prove the key", rank));
  });
  exchange();
  members([&](std::uint32_t rank, Member& member) {
    const auto message = member.channel->next();
    const auto reply = message ? rendezvous::decode_reply(*message) : Result<rendezvous::Reply>();
    if (!message || !reply || !std::holds_alternative<Reply>(reply->body))
      broken(fmt::format("rank {} did not get its answer", rank));
  });
}

std::uint64_t Fleet::ready() {
  const auto before = told_;
  tell(core::Begin{});
  for (std::size_t i = 0; i + 1 < dialled_.size(); ++i) tell(core::HostReady{dialled_[i], facts_});
  return told_ - before;
}

std::uint64_t Fleet::start() {
  tell(core::HostReady{dialled_.back(), facts_});
  if (port_wanted_) tell(core::PortReserved{*port_wanted_});
  if (ranks() == 0) broken("no world has begun");
  return ranks();
}

std::uint64_t Fleet::started() {
  for (const auto worker : workers_) tell(core::WorkerStarted{worker, 7});
  return ranks();
}

std::uint64_t Fleet::join() {
  members([&](std::uint32_t, Member& member) {
    member.channel.emplace(rendezvous::SecureChannel::Role::client, key_, rendezvous::max_reply);
  });
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) hub_.opened(members_[rank].host, StreamId{rank});
  exchange();
  ask<rendezvous::Joined>([&](std::uint32_t rank) {
    return rendezvous::Join{rank, "node", "10.0.0.1", wait_ms, false, workers_[rank].value};
  });
  return ranks();
}

std::uint64_t Fleet::barrier() {
  ask<rendezvous::Done>([](std::uint32_t) { return rendezvous::Barrier{"all", {}, wait_ms}; });
  return ranks();
}

std::uint64_t Fleet::leave() {
  ask<rendezvous::Done>([](std::uint32_t) { return rendezvous::Leave{}; });
  for (std::uint32_t rank = 0; rank < ranks(); ++rank)
    hub_.received(members_[rank].host, StreamId{rank}, {}, true);
  members([](std::uint32_t, Member& member) { member.channel.reset(); });
  return ranks();
}

std::uint64_t Fleet::exited() {
  std::uint32_t rank = 0;
  for (const auto worker : workers_) {
    tell(core::WorkerExited{.worker = worker,
                            .status = ExitStatus::exited(0),
                            .at = now_,
                            .error = {},
                            .out_of_memory = {},
                            .last_words = {}});
    hub_.member_left(Generation{1}, Rank{rank++});
  }
  return ranks();
}

std::uint64_t Fleet::finished() {
  for (const auto worker : workers_) tell(core::WorkerFinished{worker});
  return ranks();
}

std::uint64_t Fleet::stopped() {
  const auto before = told_;
  for (const auto host : std::exchange(stopping_, {})) tell(core::HostStopped{host});
  if (!outcome_ || outcome_->exit_code != 0) broken("the job did not end well");
  return told_ - before;
}

}  // namespace trainrun::bench
