// Groups on devices, and the unique ids by which NCCL's communicators find each other.
#include <fmt/format.h>

#include <algorithm>

#include "comm/backends/nccl/cuda_driver.h"
#include "comm/backends/nccl/library.h"
#include "comm/backends/nccl/nccl_backend.h"
#include "comm/backends/site.h"
#include "comm/world.h"
#include "launcher/base/rank_ranges.h"
#include "rendezvous/protocol.h"

namespace trainrun::comm {
namespace {

using nccl::Machine;

// What NCCL says of a death may come before the launcher's word of it.
constexpr Duration verdict_wait = seconds(1);

std::uint32_t place_of(const std::vector<std::uint32_t>& ranks, std::uint32_t rank) {
  return static_cast<std::uint32_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

nccl::Kit kit_of(const tl::expected<const nccl::Library*, std::string>& library) {
  return library ? nccl::Kit{(*library)->version, (*library)->path} : nccl::Kit{0, library.error()};
}

}  // namespace

Outcome<void> World::compare_kits(rendezvous::Client& client, const std::vector<std::uint32_t>& ranks,
                                  const std::string& name, const nccl::Kit& kit, Deadline deadline) {
  const auto prefix = fmt::format("comm/nccl/{}/", name);
  if (auto put = client.put(fmt::format("{}{}", prefix, place_of(ranks, rank_)), nccl::encode(kit)); !put)
    return tl::unexpected(failure_of(put.error()));
  const auto told = client.gather(prefix, static_cast<std::uint32_t>(ranks.size()), left_until(deadline));
  if (!told) {
    const auto failure = failure_of(told.error());
    if (failure.status != TRC_TIMEOUT || failure.of_world)
      return tl::unexpected(errand_failure("meeting for NCCL", failure));
    return tl::unexpected(explain("meeting for NCCL", true, {}, ranks, name));
  }
  std::vector<nccl::Brought> all;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto its = nccl::decode((*told)[i]);
    if (!its) return fail(TRC_INTERNAL, fmt::format("rank {} told no version of NCCL", ranks[i]));
    all.push_back({ranks[i], world_.members[ranks[i]].host, std::move(*its)});
  }
  if (auto misfit = nccl::misfit(all)) return tl::unexpected(std::move(*misfit));
  return {};
}

Outcome<std::vector<nccl::UniqueId>> World::nccl_ids(std::vector<std::uint32_t> ranks) {
  if (auto good = put_in_order(ranks); !good) return tl::unexpected(good.error());
  if (!std::binary_search(ranks.begin(), ranks.end(), rank_))
    return fail(TRC_INVALID, fmt::format("rank {} asks for ids of ranks {}, and is none of them", rank_,
                                         as_ranges(ranks)));
  return nccl_ids(ranks, next_name(ranks), kit_of(nccl::library()));
}

Outcome<std::vector<nccl::UniqueId>> World::nccl_ids(const std::vector<std::uint32_t>& ranks,
                                                     const std::string& name, const nccl::Kit& kit) {
  const auto deadline = std::chrono::steady_clock::now() + op_timeout_;
  const bool alone = ranks.size() == 1;
  const Groups::Opening here(groups_, name, ranks.size(), "exchange of NCCL ids " + among(ranks));
  std::optional<rendezvous::Client> client;
  std::optional<Errands::Running> running;
  if (alone) {
    if (auto misfit = nccl::misfit({{rank_, world_.members[rank_].host, kit}}))
      return tl::unexpected(std::move(*misfit));
  } else {
    auto connected = connect(op_timeout_);
    if (!connected) return tl::unexpected(connected.error());
    client.emplace(std::move(*connected));
    running.emplace(watcher_->errands(), *client);
    if (auto same = compare_kits(*client, ranks, name, kit, deadline); !same)
      return tl::unexpected(same.error());
  }
  const auto size = static_cast<std::uint32_t>(ranks.size());
  std::vector<nccl::UniqueId> ids(rendezvous::nccl_id_count(size));
  if (ranks.front() != rank_) {
    const auto given = client->fetch_ids(name, Rank{ranks.front()}, size, left_until(deadline));
    if (!given) {
      const auto failure = failure_of(given.error());
      if (failure.status != TRC_TIMEOUT || failure.of_world)
        return tl::unexpected(errand_failure("waiting for NCCL's ids", failure));
      return tl::unexpected(explain("waiting for NCCL's ids", true, {}, ranks, name));
    }
    for (std::size_t i = 0; i < ids.size(); ++i)
      std::copy_n((*given)[i].begin(), ids[i].bytes.size(), ids[i].bytes.begin());
    return ids;
  }
  const auto& call = (*nccl::library())->call;
  std::vector<std::string> words;
  for (auto& id : ids) {
    if (const auto made = call.get_unique_id(&id); made != nccl::Answer::success) {
      const char* const last = call.get_last_error(nullptr);
      auto failure =
          fail(TRC_DEVICE, fmt::format("ncclGetUniqueId: {} ({}){}{}", call.get_error_string(made),
                                       static_cast<int>(made), last && *last ? ": " : "", last ? last : ""))
              .value();
      if (!alone) {  // the others wait for it
        const std::lock_guard lock(client_mutex_);
        static_cast<void>(client_->abort(failure.message.substr(0, 1024), {}));
      }
      return tl::unexpected(std::move(failure));
    }
    words.emplace_back(id.bytes.begin(), id.bytes.end());
  }
  if (alone) return ids;
  const std::lock_guard lock(client_mutex_);
  if (auto put = client_->publish_ids(name, ranks, std::move(words)); !put)
    return tl::unexpected(failure_of(put.error()));
  return ids;
}

Failure World::explain_device(const std::string& operation, bool timed_out, const std::string& text,
                              const std::vector<std::uint32_t>& among, const std::string& name,
                              const nccl::NcclBackend& nccl) {
  const auto problem = nccl.problem();
  const auto kind = problem ? problem->kind : Machine::Problem::Kind::asked;
  const bool here = kind == Machine::Problem::Kind::library || kind == Machine::Problem::Kind::context;
  if (!here && watcher_) {
    const bool late = timed_out || kind == Machine::Problem::Kind::late;
    return explain(operation, late, late ? std::string() : text, among, name);
  }
  if (watcher_)
    if (auto verdict = watcher_->wait_for_verdict(verdict_wait)) {
      verdict->message = operation + ": " + verdict->message;
      return *verdict;
    }
  Failure failure;
  failure.status = kind == Machine::Problem::Kind::context             ? TRC_RESTART_REQUIRED
                   : here                                              ? TRC_DEVICE
                   : timed_out || kind == Machine::Problem::Kind::late ? TRC_TIMEOUT
                                                                       : TRC_TRANSPORT;
  failure.message = operation + ": " + text;
  if (watcher_) {
    const std::lock_guard lock(client_mutex_);
    static_cast<void>(client_->abort(failure.message.substr(0, 1024), {}));
  }
  return failure;
}

Outcome<Group*> World::make_device_group(std::vector<std::uint32_t> ranks, int device, void* stream,
                                         const std::string& purpose) {
  if (auto good = put_in_order(ranks); !good) return tl::unexpected(good.error());
  if (device < 0) return fail(TRC_INVALID, fmt::format("{} is no device", device));
  if (!std::binary_search(ranks.begin(), ranks.end(), rank_)) return nullptr;
  if (auto stuck = nccl::settle()) return fail(TRC_RESTART_REQUIRED, std::move(*stuck));
  const auto deadline = std::chrono::steady_clock::now() + op_timeout_;
  const auto library = nccl::library();
  const auto cuda = nccl::cuda_driver();
  const auto name = next_name(ranks, purpose);
  const Groups::Opening here(groups_, name, ranks.size(), "creation of a device group " + among(ranks));
  auto ids = nccl_ids(ranks, name, cuda ? kit_of(library) : nccl::Kit{0, cuda.error()});
  if (!ids) return tl::unexpected(ids.error());
  auto made = std::make_unique<nccl::NcclBackend>(
      **library, **cuda,
      nccl::Communicator::Place{
          static_cast<int>(place_of(ranks, rank_)), static_cast<int>(ranks.size()), device, std::move(*ids),
          deadline, environment_.nccl_abort_timeout, op_timeout_,
          watcher_ ? [this, ranks,
                      name] { static_cast<void>(explain("the device's work", true, {}, ranks, name)); }
                   : std::function<void()>(),
          environment_.fusion_bytes},
      stream, watcher_ ? Duration(std::chrono::hours(24 * 365)) : op_timeout_);
  auto& nccl = *made;
  const auto why = [this, ranks, name, &nccl](const std::string& operation, bool timed_out,
                                              const std::string& text) {
    return explain_device(operation, timed_out, text, ranks, name, nccl);
  };
  Group::Links links;
  links.world_ranks = ranks;
  links.name = name;
  auto& group = groups_.add(std::make_unique<Group>(static_cast<int>(place_of(ranks, rank_)),
                                                    static_cast<int>(ranks.size()), std::move(made),
                                                    op_timeout_, why, std::move(links)));
  const auto opened = nccl.opened();
  if (!opened)
    return tl::unexpected(why("opening NCCL's communicator", std::chrono::steady_clock::now() >= deadline,
                              opened.error().text));
  if (ranks.size() > 1) {
    const std::lock_guard lock(names_mutex_);
    group_names_[&group] = name;
  }
  return &group;
}

}  // namespace trainrun::comm
