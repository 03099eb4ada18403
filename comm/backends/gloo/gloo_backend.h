// The backend over Gloo's TCP transport. This folder alone knows Gloo.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/backends/backend.h"
#include "comm/backends/gloo/gloo_agreement.h"

namespace trainrun::comm {

class GlooMesh;

class GlooBackend final : public Backend {
 public:
  // Listens on `address` (numeric), one port for each neighbour as Gloo does, and makes the blob that they
  // need. Nothing is connected yet.
  static tl::expected<std::unique_ptr<GlooBackend>, Broken> listen(int rank, int size,
                                                                   const std::string& address);
  ~GlooBackend() override;

  [[nodiscard]] std::string blob() const;
  // The ranks that this one connects with; a few, however many there are.
  [[nodiscard]] const std::vector<int>& neighbours() const;
  // With the blobs of the neighbours, in order. abort() ends it as it ends an operation.
  Moved connect(const std::vector<std::string>& blobs, Deadline deadline);
  // Of the ranks, after connect() has failed.
  [[nodiscard]] int connects_with() const;

  [[nodiscard]] const char* name() const override { return "gloo"; }
  Performed perform(const Descriptor& what, const Transfer& data, Deadline deadline) override;
  void abort() override;

  // perform(), as a part of an operation among more ranks: they agree on what `opinion` says, and do `part`.
  Performed perform_part(const Opinion& opinion, const Descriptor& part, const Transfer& data,
                         Deadline deadline);
  // Once all agree.
  Moved move(const Descriptor& what, const Transfer& data, Deadline deadline);

 private:
  explicit GlooBackend(std::shared_ptr<GlooMesh> mesh);
  std::shared_ptr<GlooMesh> mesh_;
  GlooAgreement agreement_;
};

}  // namespace trainrun::comm
