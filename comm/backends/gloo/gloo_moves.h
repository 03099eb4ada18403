// How payload moves over a mesh, once all agree. Between neighbours alone: around the ring, along Gloo's tree
// of a broadcast, or handed on at distances of powers of two.
#pragma once

#include <functional>

#include "comm/backends/gloo/gloo_mesh.h"

namespace trainrun::comm {

// A mesh and an operation on it. All throw what Gloo throws.
struct GlooMove {
  const std::shared_ptr<GlooMesh>& mesh;
  const Descriptor& what;
  const Transfer& data;
  Deadline deadline;

  void allreduce() const;
  void reduce() const;
  void reduce_scatter() const;
  void broadcast() const;
  void allgather() const;  // also with counts
  void gather() const;
  void scatter() const;
  void alltoall() const;  // also with counts

 private:
  // What one rank gives to another that gets it, and where it lies here.
  struct Routes {
    std::function<std::size_t(int from, int to)> bytes;
    std::function<const char*(int to)> given;
    std::function<char*(int from)> got;
  };
  void route(const Routes& routes) const;
  // Both at once.
  void exchange(int to, const void* out, std::size_t out_bytes, int from, void* in, std::size_t in_bytes,
                std::uint64_t round) const;
  void ring_allreduce(void* wide, std::size_t count) const;

  [[nodiscard]] int rank() const { return mesh->rank; }
  [[nodiscard]] int size() const { return mesh->size; }
  // The rank so far after (or before) this one around the ring.
  [[nodiscard]] int after(int distance) const { return ((rank() + distance) % size() + size()) % size(); }
  [[nodiscard]] std::size_t width() const { return size_of(what.dtype); }
  [[nodiscard]] std::size_t block() const { return what.count * width(); }
  [[nodiscard]] const char* in() const { return static_cast<const char*>(data.in); }
  [[nodiscard]] char* out() const { return static_cast<char*>(data.out); }
};

}  // namespace trainrun::comm
