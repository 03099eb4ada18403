// All ranks of a world in this process, each a Group on a thread, over a backend of choice.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/backends/gloo/gloo_backend.h"
#include "comm/backends/local_backend.h"
#include "comm/backends/shm/shm_backend.h"
#include "comm/group.h"

namespace trainrun::comm {

using Backends = std::vector<std::unique_ptr<Backend>>;

inline Deadline far_away() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }

// As the meeting does, without a rendezvous.
inline Backends shm_backends(std::uint32_t size) {
  Backends backends;
  auto first = Segment::create(Segment::Kind::anonymous, Layout::bytes(size), {}).value();
  for (std::uint32_t rank = 1; rank < size; ++rank)
    backends.push_back(std::make_unique<ShmBackend>(Segment::map(first.place(), Layout::bytes(size)).value(),
                                                    rank, size, rank % 2 == 0));
  backends.insert(backends.begin(), std::make_unique<ShmBackend>(std::move(first), 0, size, false));
  return backends;
}

inline Backends gloo_backends(std::uint32_t size) {
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
  Backends backends;
  for (auto& rank : ranks) backends.push_back(std::move(rank));
  return backends;
}

inline Backends backends_named(const std::string& name, std::uint32_t size) {
  if (size == 1) {
    Backends one;
    one.push_back(std::make_unique<LocalBackend>());
    return one;
  }
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
  // What each rank's work returned.
  std::vector<Outcome<void>> all(const std::function<Outcome<void>(Group&, int rank)>& work) {
    std::vector<Outcome<void>> ended(groups_.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < groups_.size(); ++rank)
      threads.emplace_back([&, rank] { ended[rank] = work(*groups_[rank], static_cast<int>(rank)); });
    for (auto& thread : threads) thread.join();
    return ended;
  }
  void all_do(const std::function<Outcome<void>(Group&, int rank)>& work) {
    for (const auto& ended : all(work)) REQUIRE_MESSAGE(ended, ended.error().message);
  }
  Group& at(int rank) { return *groups_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int size() const { return size_; }

 private:
  int size_;
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace trainrun::comm
