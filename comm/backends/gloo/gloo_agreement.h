// What ranks tell each other before an operation. What each gives comes along where it is small, so a small
// operation is over when all agree.
#pragma once

#include <gloo/context.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/backends/backend.h"

namespace trainrun::comm {

// What a rank comes with.
struct Opinion {
  Descriptor mine;
  std::uint32_t rank = 0;               // as others are to name it
  std::optional<Disagreement> heard{};  // from ranks that this one has asked before
};

class GlooAgreement {
 public:
  // Of what all ranks of a mesh give together.
  static constexpr std::size_t room = std::size_t{32} << 10;

  GlooAgreement(int rank, int size);

  // `given` has `bytes` bytes (or is null: zeros), as many on all ranks whose descriptors are equal, at most
  // room / size. Throws what Gloo throws.
  std::optional<Disagreement> reach(gloo::Context& mesh, const Opinion& own, const void* given,
                                    std::size_t bytes, Deadline deadline);
  // After ranks have agreed: what one of them gave.
  [[nodiscard]] const char* given_by(int rank) const;

 private:
  struct View;

  int rank_, size_;
  std::size_t bytes_ = 0;
  std::vector<char> sent_,
      heard_;  // a view, then what ranks gave: this one's, then that of the one before...
};

}  // namespace trainrun::comm
