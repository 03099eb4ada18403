#include "launcher/core/world_start.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/core/introduction.h"
#include "launcher/core/process_mapping.h"
#include "launcher/core/scheduling.h"

namespace trainrun::core {
namespace {

bool has_mpi_or_horovod(const wire::HostFacts& facts) {
  return facts.programs.horovod ||
         std::any_of(facts.programs.mpi.begin(), facts.programs.mpi.end(),
                     [](const wire::MpiFact& fact) { return fact.family != wire::MpiFamily::none; });
}

}  // namespace

void WorldStart::begin(const BeginWorld& order, const FactsByHost& facts) {
  placement_ = order.placement;
  restarts_ = order.restarts;
  ranks_on_.clear();
  for (const auto& seat : placement_.seats) ranks_on_[seat.host].push_back(seat.rank);
  addresses_ = addresses_of(facts, job_);
  mapping_ = process_mapping(placement_);
  all_new_ = std::all_of(order.workers.begin(), order.workers.end(),
                         [this](WorkerId worker) { return worker > newest_; });
  newest_ = std::max(newest_, *std::max_element(order.workers.begin(), order.workers.end()));
  const bool told = job_.compat != Compat::automatic && job_.compat != Compat::none;
  meets_without_torch_ = told || std::any_of(facts.begin(), facts.end(),
                                             [](const auto& it) { return has_mpi_or_horovod(*it.second); });
  pmix_everywhere_ = std::all_of(placement_.seats.begin(), placement_.seats.end(), [&](const Seat& seat) {
    const auto known = facts.find(seat.host);
    return known != facts.end() && !known->second->programs.pmix_library.empty();
  });
}

void WorldStart::plan(Placement with_newcomers, const FactsByHost& facts) {
  later_ = std::move(with_newcomers);
  addresses_.merge(addresses_of(facts, job_));  // those who are there keep theirs
}

const std::string& WorldStart::host_of(Rank rank) const {
  return job_.hosts.hosts[placement_.seats[rank.value].host.value].name;
}

const std::vector<Rank>& WorldStart::ranks_on(HostIndex host) const {
  static const std::vector<Rank> none;
  const auto known = ranks_on_.find(host);
  return known == ranks_on_.end() ? none : known->second;
}

std::string WorldStart::address_of(HostIndex host) const {
  const auto known = addresses_.find(host);
  return known == addresses_.end() ? std::string{} : known->second;
}

WorldFacts WorldStart::facts_of(const StartWorker& order, const Site& site, std::uint16_t master_port) const {
  WorldFacts world;
  world.master_addr = address_of(placement_.seats.front().host);
  world.master_port = std::to_string(master_port);
  if (job_.torch_store == TorchStore::trainrun) {
    world.agent_store = true;
    world.master_addr = "127.0.0.1";
    world.master_port = std::to_string(site.torch_store);
  }
  world.rendezvous = fmt::format("127.0.0.1:{}", site.rendezvous);
  if (site.horovod != 0) world.horovod_port = std::to_string(site.horovod);
  world.key_file = site.job_directory + "/key";
  world.job_directory = site.job_directory;
  // Old files of other generations must not be taken for this one's.
  world.error_file = is_newcomer(order) ? fmt::format("{}/rank.{}.worker.{}.error.json", site.job_directory,
                                                      order.rank.value, order.worker.value)
                     : order.generation.value == 1
                         ? fmt::format("{}/rank.{}.error.json", site.job_directory, order.rank.value)
                         : fmt::format("{}/rank.{}.generation.{}.error.json", site.job_directory,
                                       order.rank.value, order.generation.value);
  world.address = address_of(seat_of(order).host);
  world.restart_count = restarts_;
  world.all_new = all_new_ && !is_newcomer(order);
  world.pmix_everywhere = pmix_everywhere_;
  world.gpus = order.share.gpus;
  return world;
}

wire::StdinMode WorldStart::stdin_mode(const StartWorker& order, bool can_inherit) const {
  if (job_.stdin_to == StdinTo::all) return wire::StdinMode::relay;
  // Which rank a newcomer will be is known when it joins; never 0, which is a survivor.
  if (is_newcomer(order) && job_.stdin_to == StdinTo::rank && job_.stdin_rank > 0)
    return wire::StdinMode::relay;
  if (!has_stdin(order.rank)) return wire::StdinMode::null;
  return can_inherit ? wire::StdinMode::inherit : wire::StdinMode::relay;
}

wire::Start WorldStart::start(const StartWorker& order, const Site& site, std::uint16_t master_port) const {
  const auto& seat = seat_of(order);
  const auto& program = job_.programs[seat.program];
  const auto world = facts_of(order, site, master_port);
  wire::Start start;
  start.worker = order.worker;
  start.generation = placement_.generation;
  start.argv = program.argv;
  start.directory = program.directory;
  start.env = worker_env(job_, placement_for(order), order.rank, world, site.facts);
  start.cpus = order.share.cpus;
  start.stdin_mode = stdin_mode(order, site.can_inherit_stdin);
  start.pmi = offers_pmi(job_, world) && !is_newcomer(order);
  start.pmix = offers_pmix(job_, world) && !is_newcomer(order);
  start.pty = job_.pty.value_or(start.pmix && !is_a_guess(*site.facts, seat.program));
  start.batch = runs_in_batch(job_, seat, *site.facts);
  if (start.pmi || start.pmix)
    start.place = {seat.rank, static_cast<std::uint32_t>(placement_.seats.size()), seat.local_size,
                   static_cast<std::uint32_t>(seat.program), mapping_};
  return start;
}

// On a line of Hydra's, whose ranks have pipes, PMIx is offered for what a program may yet load.
bool WorldStart::is_a_guess(const wire::HostFacts& facts, std::size_t program) const {
  if (!job_.as_mpi_launcher || job_.as_mpirun || job_.compat != Compat::automatic) return false;
  const auto& known = facts.programs.mpi;
  return program >= known.size() || known[program].family != wire::MpiFamily::open_mpi;
}

std::optional<wire::World> WorldStart::introduction(const StartWorker& order, const wire::HostFacts& facts) {
  auto& introduced = introduced_[placement_.seats[order.rank.value].host];
  if (introduced == order.generation) return std::nullopt;
  introduced = order.generation;
  return core::introduction(job_, placement_, order, facts, restarts_, mapping_);
}

std::vector<HostIndex> WorldStart::introduced() const {
  std::vector<HostIndex> hosts;
  for (const auto& [host, generation] : introduced_)
    if (generation == placement_.generation) hosts.push_back(host);
  return hosts;
}

}  // namespace trainrun::core
