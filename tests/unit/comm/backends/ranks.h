// All ranks of a world in this process, each a Group on a thread, over a backend of choice.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/backends/gloo/gloo_backend.h"
#include "comm/backends/hier/hier_backend.h"
#include "comm/backends/local_backend.h"
#include "comm/backends/shm/shm_backend.h"
#include "comm/group.h"
#include "tests/unit/comm/no_sigpipe.h"

namespace trainrun::comm {

using Backends = std::vector<std::unique_ptr<Backend>>;

inline Deadline far_away() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }

// As the meeting does, without a rendezvous.
inline std::vector<std::unique_ptr<ShmBackend>> in_memory(std::uint32_t size) {
  std::vector<std::unique_ptr<ShmBackend>> ranks;
  auto first = Segment::create(Segment::Kind::anonymous, Layout::bytes(size), {}).value();
  for (std::uint32_t rank = 1; rank < size; ++rank)
    ranks.push_back(std::make_unique<ShmBackend>(Segment::map(first.place(), Layout::bytes(size)).value(),
                                                 rank, size, rank % 2 == 0));
  ranks.insert(ranks.begin(), std::make_unique<ShmBackend>(std::move(first), 0, size, false));
  return ranks;
}

inline std::vector<std::unique_ptr<GlooBackend>> over_gloo(std::uint32_t size) {
  std::vector<std::unique_ptr<GlooBackend>> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank)
    ranks.push_back(GlooBackend::listen(static_cast<int>(rank), static_cast<int>(size), "127.0.0.1").value());
  std::vector<std::thread> threads;
  std::vector<Moved> met(size);
  for (std::uint32_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      std::vector<std::string> blobs;
      for (const int other : ranks[rank]->neighbours())
        blobs.push_back(ranks[static_cast<std::size_t>(other)]->blob());
      met[rank] = ranks[rank]->connect(blobs, far_away());
    });
  for (auto& thread : threads) thread.join();
  for (const auto& moved : met) REQUIRE_MESSAGE(moved, moved.error().text);
  return ranks;
}

template <class Ranks>
Backends as_backends(Ranks ranks) {
  return {std::make_move_iterator(ranks.begin()), std::make_move_iterator(ranks.end())};
}

inline Backends shm_backends(std::uint32_t size) { return as_backends(in_memory(size)); }
inline Backends gloo_backends(std::uint32_t size) { return as_backends(over_gloo(size)); }

// `hosts`: each rank's. `flat`: the mesh of all.
inline Backends hier_backends(const std::vector<std::string>& hosts,
                              std::vector<std::unique_ptr<GlooBackend>> flat) {
  const auto size = static_cast<std::uint32_t>(hosts.size());
  std::vector<HostGrid> grids;
  for (std::uint32_t rank = 0; rank < size; ++rank) grids.push_back(grid_of(hosts, rank).value());
  std::vector<std::vector<std::unique_ptr<ShmBackend>>> memories;
  std::vector<std::vector<std::unique_ptr<GlooBackend>>> columns;
  for (std::uint32_t host = 0; host < grids[0].hosts; ++host) memories.push_back(in_memory(grids[0].locals));
  for (std::uint32_t local = 0; local < grids[0].locals; ++local)
    columns.push_back(over_gloo(grids[0].hosts));
  Backends backends;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    const auto& grid = grids[rank];
    backends.push_back(std::make_unique<HierBackend>(grid, std::move(memories[grid.host][grid.local]),
                                                     std::move(columns[grid.local][grid.host]),
                                                     std::move(flat[rank])));
  }
  return backends;
}

inline Backends hier_backends(const std::vector<std::string>& hosts) {
  return hier_backends(hosts, over_gloo(static_cast<std::uint32_t>(hosts.size())));
}

// Names of hosts for ranks, as many on each; dealt out in turn, or one host after the other.
inline std::vector<std::string> hosts_for(std::uint32_t hosts, std::uint32_t locals, bool in_turn = false) {
  std::vector<std::string> names;
  for (std::uint32_t rank = 0; rank < hosts * locals; ++rank)
    names.push_back("host" + std::to_string(in_turn ? rank % hosts : rank / locals));
  return names;
}

inline Backends backends_named(const std::string& name, std::uint32_t size) {
  if (size == 1) {
    Backends one;
    one.push_back(std::make_unique<LocalBackend>());
    return one;
  }
  if (name == "hier") return hier_backends(hosts_for(size / 2, 2));
  return name == "shm" ? shm_backends(size) : gloo_backends(size);
}

class Ranks {
 public:
  explicit Ranks(Backends backends) : size_(static_cast<int>(backends.size())) {
    for (auto& backend : backends) {
      const auto rank = static_cast<int>(groups_.size());
      groups_.push_back(std::make_unique<Group>(
          rank, size_, std::move(backend), std::chrono::seconds(60),
          [](const std::string& operation, bool timed_out, const std::string& text) {
            return comm::fail(timed_out ? TRC_TIMEOUT : TRC_TRANSPORT, operation + ": " + text).value();
          }));
    }
  }
  // What each rank's work returned. Ranks that wait for each other for ever are ended, so that the test shows
  // where. `meanwhile` is done while they work.
  std::vector<Outcome<void>> all(
      const std::function<Outcome<void>(Group&, int rank)>& work,
      const std::function<void(const std::vector<std::future<Outcome<void>>>&)>& meanwhile = {}) {
    std::vector<std::future<Outcome<void>>> running;
    for (std::size_t rank = 0; rank < groups_.size(); ++rank)
      running.push_back(
          std::async(std::launch::async, [&, rank] { return work(*groups_[rank], static_cast<int>(rank)); }));
    if (meanwhile) meanwhile(running);
    const auto deadline = std::chrono::steady_clock::now() + hangs_after;
    const bool all_end = std::ranges::all_of(
        running, [&](const auto& each) { return each.wait_until(deadline) == std::future_status::ready; });
    if (!all_end) abort();
    std::vector<Outcome<void>> ended;
    for (auto& each : running) ended.push_back(each.get());
    REQUIRE(all_end);
    return ended;
  }
  void abort() {
    for (auto& group : groups_) group->abort();
  }
  void all_do(const std::function<Outcome<void>(Group&, int rank)>& work) {
    for (const auto& ended : all(work)) REQUIRE_MESSAGE(ended, ended.error().message);
  }
  Group& at(int rank) { return *groups_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int size() const { return size_; }

 private:
  static constexpr std::chrono::minutes hangs_after{4};
  NoSigpipe ignored_;  // until they are gone
  int size_;
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace trainrun::comm
