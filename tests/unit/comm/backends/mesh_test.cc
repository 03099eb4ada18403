// Who is connected with whom over Gloo, and that all operations work over those connections alone.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "comm/backends/gloo/gloo_backend.h"
#include "comm/backends/gloo/neighbours.h"
#include "tests/unit/comm/no_sigpipe.h"
#include "tests/unit/rendezvous/server.h"

using namespace trainrun;
using namespace trainrun::comm;

namespace {

Deadline soon() { return std::chrono::steady_clock::now() + rendezvous::patient; }

// All ranks of a mesh in this process, each on a thread.
class Mesh {
 public:
  explicit Mesh(int size) {
    for (int rank = 0; rank < size; ++rank)
      ranks_.push_back(GlooBackend::listen(rank, size, "127.0.0.1").value());
    on_all([&](int rank) {
      std::vector<std::string> blobs;
      for (const int other : at(rank).neighbours()) blobs.push_back(at(other).blob());
      return at(rank).connect(blobs, soon());
    });
  }
  void on_all(const std::function<Moved(int rank)>& work) {
    std::vector<Moved> done(ranks_.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      threads.emplace_back([&, rank] { done[rank] = work(static_cast<int>(rank)); });
    for (auto& thread : threads) thread.join();
    for (const auto& moved : done) REQUIRE_MESSAGE(moved, moved.error().text);
  }
  GlooBackend& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

 private:
  NoSigpipe ignored_;  // until they are gone
  std::vector<std::unique_ptr<GlooBackend>> ranks_;
};

Descriptor descriptor(Call call, std::uint64_t count, int root = 0) {
  Descriptor what;
  what.call = call;
  what.count = count;
  what.dtype = TRC_I64;
  what.root = root;
  return what;
}

}  // namespace

TEST_CASE("neighbours know each other, are few, and are all others of a small world") {
  for (int size = 1; size <= 300; ++size) {
    int doublings = 0;
    while ((1 << doublings) < size) ++doublings;
    for (int rank = 0; rank < size; ++rank) {
      const auto mine = neighbours_of(rank, size);
      bool right = std::is_sorted(mine.begin(), mine.end()) &&
                   static_cast<int>(mine.size()) <= std::min(2 * doublings, size - 1);
      if (size <= 5) right = right && static_cast<int>(mine.size()) == size - 1;
      for (const int other : mine) {
        const auto theirs = neighbours_of(other, size);
        right = right && other != rank && std::count(theirs.begin(), theirs.end(), rank) == 1;
      }
      CHECK_MESSAGE(right, "rank ", rank, " of ", size);
    }
  }
}

TEST_CASE("every operation works on a mesh that connects neighbours alone, from every root") {
  for (const int size : {6, 7, 12}) {
    CAPTURE(size);
    Mesh mesh(size);
    constexpr std::size_t count = 20'011;  // more than comes with the agreement
    mesh.on_all([&](int rank) -> Moved {
      const auto perform = [&](const Descriptor& what, const void* in, void* out) -> Moved {
        const auto done = mesh.at(rank).perform(what, {in, out, {}}, soon());
        if (!done) return tl::unexpected(done.error());
        if (*done) return tl::unexpected(Broken{"the ranks disagree"});
        return {};
      };
      std::vector<std::int64_t> values(count, rank);
      if (auto moved = perform(descriptor(Call::allreduce, count), values.data(), values.data()); !moved)
        return moved;
      if (values.front() != size * (size - 1) / 2) return tl::unexpected(Broken{"a wrong sum"});
      for (int root = 0; root < size; ++root) {
        values.assign(count, rank);
        if (auto moved = perform(descriptor(Call::broadcast, count, root), values.data(), values.data());
            !moved)
          return moved;
        if (values.front() != root || values.back() != root)
          return tl::unexpected(Broken{"a wrong broadcast"});
      }
      const std::int64_t own = rank;
      std::vector<std::int64_t> all(static_cast<std::size_t>(size));
      if (auto moved = perform(descriptor(Call::allgather, 1), &own, all.data()); !moved) return moved;
      for (int other = 0; other < size; ++other)
        if (all[static_cast<std::size_t>(other)] != other) return tl::unexpected(Broken{"a wrong gather"});
      return {};
    });
  }
}
