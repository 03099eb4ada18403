#include "launcher/agent/pmix_world.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/agent/mpi_words.h"

namespace trainrun::agent {
namespace {

// libpmix's; the helper hands them on as they are.
constexpr std::int32_t success = 0, not_found = -46, lost_connection = -61;

const char* name_of(wire::pmix::Service service) {
  switch (service) {
    case wire::pmix::Service::publish:
      return "MPI_Publish_name";
    case wire::pmix::Service::lookup:
      return "MPI_Lookup_name";
    case wire::pmix::Service::unpublish:
      return "MPI_Unpublish_name";
    case wire::pmix::Service::spawn:
      return "MPI_Comm_spawn";
  }
  return "";
}

}  // namespace

bool PmixWorld::is_whole(const wire::World& world) {
  const auto below = [](const std::vector<std::uint32_t>& all, std::size_t limit) {
    return std::all_of(all.begin(), all.end(), [limit](std::uint32_t one) { return one < limit; });
  };
  return world.here < world.hosts.size() && !world.host_of_rank.empty() &&
         world.host_of_rank.size() == world.program_of_rank.size() &&
         below(world.host_of_rank, world.hosts.size()) && below(world.program_of_rank, world.programs.size());
}

PmixWorld::PmixWorld(wire::World world) : world_(std::move(world)) {}

void PmixWorld::add(WorkerId worker, Rank rank) { clients_[worker].rank = rank; }

const PmixWorld::Client* PmixWorld::find(Rank rank, WorkerId* worker) const {
  for (const auto& [id, client] : clients_) {
    if (client.rank != rank || client.gone) continue;
    if (worker != nullptr) *worker = id;
    return &client;
  }
  return nullptr;
}

bool PmixWorld::in_mpi(WorkerId worker) const {
  const auto it = clients_.find(worker);
  return it != clients_.end() && it->second.connected && !it->second.finalized;
}

bool PmixWorld::has_spoken(WorkerId worker) const {
  const auto it = clients_.find(worker);
  return it != clients_.end() && it->second.connected;
}

bool PmixWorld::is_valid(const std::vector<Rank>& group) const {
  for (std::size_t i = 0; i < group.size(); ++i)
    if (group[i].value >= world_.host_of_rank.size() || (i > 0 && group[i - 1] >= group[i])) return false;
  return true;
}

bool PmixWorld::is_here(const std::vector<Rank>& group) const {
  const auto here = [this](std::uint32_t host) { return host == world_.here; };
  if (group.empty()) return std::all_of(world_.host_of_rank.begin(), world_.host_of_rank.end(), here);
  return std::all_of(group.begin(), group.end(),
                     [&](Rank rank) { return here(world_.host_of_rank[rank.value]); });
}

PmixWorld::Effects PmixWorld::received(const wire::pmix::Reached& message) {
  if (message.generation != world_.generation) return {};
  for (auto& [id, client] : clients_) {
    if (client.rank != message.rank || client.gone) continue;
    if (message.stage == wire::pmix::Stage::connected) {
      client.connected = true;
      client.finalized = false;  // the next program of a rank that is a script
    } else {
      client.finalized = client.connected;
    }
  }
  return look_for_deserters();
}

// Who is within MPI waits, sooner or later, for all the others: one that has ended and never came is missed.
// libpmix does not say who waits for ranks of this host.
PmixWorld::Effects PmixWorld::look_for_deserters() {
  if (failed_ || told_missing_) return {};
  std::vector<Rank> missing;
  bool anybody = false;
  for (const auto& [id, client] : clients_) {
    if (client.gone && !client.connected) missing.push_back(client.rank);
    if (!client.gone && client.connected && !client.finalized) anybody = true;
  }
  if (!anybody || missing.empty()) return {};
  told_missing_ = true;
  const auto known = groups_.find({});
  const auto sequence = known == groups_.end() ? 1 : known->second.done + 1;
  return {wire::Gather{world_.generation, {}, sequence, {}, std::move(missing), wire::Dialect::pmix}};
}

PmixWorld::Effects PmixWorld::received(const wire::pmix::AbortAsked& message) {
  WorkerId worker;
  if (message.generation != world_.generation || find(message.rank, &worker) == nullptr) return {};
  return {Abort{worker, message.code}};
}

PmixWorld::Effects PmixWorld::received(const wire::pmix::Logged& message) {
  WorkerId worker;
  if (message.generation != world_.generation || find(message.rank, &worker) == nullptr) return {};
  return {Print{worker, message.stream, message.text}};
}

PmixWorld::Effects PmixWorld::received(const wire::pmix::Refused& message) {
  if (message.generation != world_.generation || !refused_.insert(message.service).second) return {};
  return {Tell{fmt::format("rank {} asked for {}, which trainrun does not offer ({})", message.rank.value,
                           name_of(message.service), instead_of_a_second_world)}};
}

PmixWorld::Effects PmixWorld::received(wire::pmix::FenceAsked message) {
  if (message.generation != world_.generation) return {};
  const auto refuse = [&](const std::string& why) -> Effects {
    Effects effects{wire::pmix::Reply{message.number, lost_connection, {}}};
    if (!why.empty()) effects.emplace_back(Tell{why});
    return effects;
  };
  if (failed_ || !is_valid(message.group) || waiting_ >= most_waiting) return refuse({});
  if (message.bytes.size() > wire::gather_limit)
    return refuse(fmt::format("the ranks here have {} bytes for one exchange of PMIx, and {} are allowed",
                              message.bytes.size(), wire::gather_limit));
  if (is_here(message.group)) return {wire::pmix::Reply{message.number, success, {std::move(message.bytes)}}};
  auto& group = groups_[message.group];
  ++waiting_;
  group.fences.push_back({message.number, std::move(message.bytes)});
  if (group.fences.size() > 1) return {};
  return send(message.group, group);
}

PmixWorld::Effects PmixWorld::send(const std::vector<Rank>& ranks, Group& group) {
  return {wire::Gather{world_.generation,
                       ranks,
                       group.done + 1,
                       std::move(group.fences.front().bytes),
                       {},
                       wire::Dialect::pmix}};
}

PmixWorld::Effects PmixWorld::gathered(const wire::Gathered& message) {
  const auto it = groups_.find(message.group);
  if (failed_ || message.generation != world_.generation || it == groups_.end()) return {};
  auto& group = it->second;
  if (group.fences.empty() || message.sequence != group.done + 1) return {};
  for (const auto& part : message.parts) {
    group.bytes += part.size();
    if (group.bytes > most_gathered) return failed();
    group.parts.push_back(part);
  }
  if (!message.last) return {};
  Effects effects{wire::pmix::Reply{group.fences.front().number, success, std::move(group.parts)}};
  group.fences.pop_front();
  --waiting_;
  ++group.done;
  group.parts.clear();
  group.bytes = 0;
  if (!group.fences.empty())
    for (auto& effect : send(it->first, group)) effects.push_back(std::move(effect));
  return effects;
}

PmixWorld::Effects PmixWorld::failed() {
  if (std::exchange(failed_, true)) return {};
  Effects effects;
  for (const auto& [ranks, group] : groups_)
    for (const auto& fence : group.fences)
      effects.emplace_back(wire::pmix::Reply{fence.number, lost_connection, {}});
  for (const auto& [number, rank] : questions_)
    effects.emplace_back(wire::pmix::Reply{number, lost_connection, {}});
  groups_.clear();
  questions_.clear();
  asked_.clear();
  waiting_ = 0;
  return effects;
}

PmixWorld::Effects PmixWorld::died(Rank rank) const {
  if (failed_ || rank.value >= world_.host_of_rank.size()) return {};
  return {wire::pmix::RankDied{rank}};
}

PmixWorld::Effects PmixWorld::received(const wire::pmix::ModexAsked& message) {
  if (message.generation != world_.generation) return {};
  if (failed_ || message.rank.value >= world_.host_of_rank.size() || questions_.size() >= most_waiting)
    return {wire::pmix::Reply{message.number, failed_ ? lost_connection : not_found, {}}};
  questions_.emplace(message.number, message.rank);
  return {wire::Ask{world_.generation, message.number, message.rank, {}, wire::Dialect::pmix}};
}

PmixWorld::Effects PmixWorld::answered(wire::Answer answer) {
  if (answer.generation != world_.generation || questions_.erase(answer.question) == 0) return {};
  if (!answer.found) return {wire::pmix::Reply{answer.question, not_found, {}}};
  return {wire::pmix::Reply{answer.question, success, {std::move(answer.bytes)}}};
}

PmixWorld::Effects PmixWorld::asked(const wire::Ask& question) {
  const bool can_know = question.generation == world_.generation && !failed_ &&
                        question.rank.value < world_.host_of_rank.size() &&
                        world_.host_of_rank[question.rank.value] == world_.here &&
                        asked_.size() < most_waiting && asked_.insert(question.question).second;
  if (!can_know) return {wire::Answer{question.generation, question.question, false, {}}};
  return {wire::pmix::AskModex{question.question, question.rank}};
}

PmixWorld::Effects PmixWorld::received(wire::pmix::Modex message) {
  if (asked_.erase(message.number) == 0) return {};
  const bool found = message.status == success && message.bytes.size() <= wire::gather_limit;
  if (!found) message.bytes.clear();
  return {wire::Answer{world_.generation, message.number, found, std::move(message.bytes)}};
}

PmixWorld::Effects PmixWorld::left(WorkerId worker) {
  const auto it = clients_.find(worker);
  if (it == clients_.end() || it->second.gone) return {};
  it->second.gone = true;
  return look_for_deserters();
}

}  // namespace trainrun::agent
