// The backend over Gloo's TCP transport. The one file pair that knows Gloo.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/backend.h"

namespace trainrun::comm {

class GlooBackend final : public Backend {
 public:
  // Listens on `address` (numeric), one port for each peer as Gloo does, and makes the blob that the others
  // need. Nothing is connected yet.
  static tl::expected<std::unique_ptr<GlooBackend>, Broken> listen(int rank, int size,
                                                                   const std::string& address);
  ~GlooBackend() override;

  [[nodiscard]] std::string blob() const;
  // With the blobs of all ranks, in order. abort() ends it as it ends an operation.
  Moved connect(const std::vector<std::string>& blobs, Deadline deadline);

  tl::expected<std::optional<Disagreement>, Broken> agree(const Descriptor& mine, Deadline deadline) override;
  Moved allreduce(const void* in, void* out, const Descriptor& what, Deadline deadline) override;
  Moved broadcast(void* data, const Descriptor& what, Deadline deadline) override;
  Moved allgather(const void* in, void* out, const Descriptor& what, Deadline deadline) override;
  void abort() override;

 private:
  struct Mesh;
  explicit GlooBackend(std::shared_ptr<Mesh> mesh);
  std::shared_ptr<Mesh> mesh_;
};

}  // namespace trainrun::comm
