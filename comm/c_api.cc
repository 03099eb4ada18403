// The C interface over World and Group.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "comm/c_handles.h"
#include "launcher/base/fault.h"

namespace trainrun::comm {
namespace {

constexpr trc_error_info no_error() {
  trc_error_info info{};
  info.culprit = -1;
  return info;
}
thread_local trc_error_info last_error = no_error();

template <std::size_t size>
void copy(const std::string& text, char (&into)[size]) {
  const auto length = std::min(text.size(), size - 1);
  std::memcpy(into, text.data(), length);
  into[length] = '\0';
}

const char* environment(const char* name) { return std::getenv(name); }

}  // namespace

trc_status remember(const Failure& failure) {
  auto& info = last_error;
  info = {};
  info.status = failure.status;
  info.generation = failure.generation;
  info.culprit = failure.culprit ? static_cast<std::int32_t>(*failure.culprit) : -1;
  info.sequence = failure.sequence;
  info.missing_count = static_cast<std::uint32_t>(failure.missing.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(failure.missing.size(), std::size(info.missing)); ++i)
    info.missing[i] = static_cast<std::int32_t>(failure.missing[i]);
  copy(failure.operation, info.operation);
  copy(failure.host, info.host);
  copy(failure.how, info.how);
  copy(failure.message, info.message);
  return failure.status;
}

Failure last_failure() {
  const auto& info = last_error;
  Failure failure;
  failure.status = static_cast<trc_status>(info.status);
  failure.message = info.message;
  if (info.culprit >= 0) failure.culprit = static_cast<std::uint32_t>(info.culprit);
  failure.host = info.host;
  failure.how = info.how;
  failure.operation = info.operation;
  failure.sequence = info.sequence;
  failure.generation = info.generation;
  for (std::size_t i = 0; i < std::min<std::size_t>(info.missing_count, std::size(info.missing)); ++i)
    failure.missing.push_back(static_cast<std::uint32_t>(info.missing[i]));
  return failure;
}

trc_status invalid(const char* message) {
  Failure failure;
  failure.status = TRC_INVALID;
  failure.message = message;
  return remember(failure);
}

trc_status not_here() {
  return invalid("the world belongs to the process that made it, and this one was forked from that");
}

void abandon(void* handle) {
  static std::vector<void*>* const abandoned = new std::vector<void*>();
  abandoned->push_back(handle);
}

Outcome<Environment> environment_for(const trc_options* options) {
  static std::once_flag once;
  std::call_once(once, [] {
    if (const char* const faults = environment("TRAINRUN_FAULT")) fault::configure(faults);
  });
  return read_environment(environment, options);
}

}  // namespace trainrun::comm

using trainrun::comm::guarded;
using trainrun::comm::invalid;
using trainrun::comm::Outcome;

namespace {

const trainrun::rendezvous::World& members(const trc_world* world) { return world->world->members(); }

}  // namespace

void trc_world::drain() {
  std::vector<std::shared_ptr<trainrun::comm::Lanes>> all{group.lanes};
  {
    const std::lock_guard lock(mutex);
    for (const auto& part : groups) all.push_back(part->lanes);
  }
  for (const auto& lanes : all) lanes->drain();
}

bool trc_world::close_lanes(trainrun::Duration within) {
  const std::lock_guard lock(mutex);
  const auto until = std::chrono::steady_clock::now() + within;
  bool ended = group.lanes->close(until);
  for (const auto& part : groups) ended = part->lanes->close(until) && ended;
  return ended;
}

trc_status trc_world_init(const trc_options* options, trc_world** world) {
  if (world == nullptr) return invalid("trc_world_init needs a place for the world");
  *world = nullptr;
  return guarded([&]() -> Outcome<void> {
    auto place = trainrun::comm::environment_for(options);
    if (!place) return tl::unexpected(place.error());
    auto made = trainrun::comm::World::init(*place);
    if (!made) return tl::unexpected(made.error());
    auto* const inside = made->get();
    *world = new trc_world{inside, {&inside->group(), inside->members().generation}, std::move(*made)};
    (*world)->group.world = *world;
    return {};
  });
}

trc_status trc_world_finalize(trc_world* world) {
  if (world == nullptr) return invalid("trc_world_finalize of no world");
  return guarded(world->group, [&] {
    world->drain();
    return world->world->finalize(world->world->op_timeout());
  });
}

void trc_world_free(trc_world* world) {
  if (world == nullptr) return;
  if (!world->group.home.here()) {
    trainrun::comm::abandon(world);
    return;
  }
  if (!world->close_lanes(trainrun::comm::works_at_the_end)) world->owned.get_deleter().in_use = true;
  delete world;
}

int trc_rank(const trc_world* world) { return static_cast<int>(world->world->self().rank); }
int trc_size(const trc_world* world) { return static_cast<int>(members(world).size); }
int trc_local_rank(const trc_world* world) { return static_cast<int>(world->world->self().local_rank); }
int trc_local_size(const trc_world* world) { return static_cast<int>(world->world->self().local_size); }
uint32_t trc_generation(const trc_world* world) { return members(world).generation; }

const char* trc_host(const trc_world* world, int rank) {
  if (rank < 0 || rank >= trc_size(world)) return nullptr;
  return members(world).members[static_cast<std::size_t>(rank)].host.c_str();
}

const char* trc_backend(const trc_world* world) { return world->world->backend(); }

trc_status trc_last_error(trc_error_info* info) {
  if (info == nullptr || info->struct_size < sizeof(std::uint32_t)) return TRC_INVALID;
  const auto& last = trainrun::comm::last_error;
  const auto size = std::min<std::size_t>(info->struct_size, sizeof last);
  const auto kept = info->struct_size;
  std::memcpy(info, &last, size);
  info->struct_size = kept;
  return TRC_OK;
}

const char* trc_status_name(trc_status status) {
  switch (status) {
    case TRC_OK:
      return "Ok";
    case TRC_PEER_LOST:
      return "PeerLost";
    case TRC_ABORTED:
      return "Aborted";
    case TRC_TIMEOUT:
      return "Timeout";
    case TRC_MISMATCH:
      return "Mismatch";
    case TRC_TRANSPORT:
      return "Transport";
    case TRC_INVALID:
      return "Invalid";
    case TRC_UNSUPPORTED:
      return "Unsupported";
    case TRC_INTERNAL:
      return "Internal";
    case TRC_HOSTS_UPDATED:
      return "HostsUpdated";
    case TRC_REMOVED:
      return "Removed";
    case TRC_DEVICE:
      return "Device";
    case TRC_RESTART_REQUIRED:
      return "RestartRequired";
  }
  return "?";
}
