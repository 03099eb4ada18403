// What ranks tell each other before an operation. What each gives comes along where it is small, so a small
// operation is over when all agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/backends/backend.h"
#include "comm/backends/gloo/gloo_letters.h"

namespace trainrun::comm {

// What a rank comes with.
struct Opinion {
  Descriptor mine;
  std::uint32_t rank = 0;               // as others are to name it
  std::optional<Disagreement> heard{};  // from ranks that this one has asked before
};

class GlooAgreement {
 public:
  // Of what all ranks of a mesh give together. A ring sends less of it, but takes some hundred microseconds a
  // step, and twice as many steps as there are ranks; measured, it is slower up to twice this.
  static constexpr std::size_t room = std::size_t{512} << 10;

  // Of a mesh that listens, and is not connected yet. Throws what Gloo throws.
  explicit GlooAgreement(GlooMesh& mesh);

  // `given` has `bytes` bytes (or is null: zeros), as many on all ranks whose descriptors are equal, at most
  // room / size. Throws what Gloo throws; a wait has no limit but the mesh's abort().
  std::optional<Disagreement> reach(const Opinion& own, const void* given, std::size_t bytes);
  // After ranks have agreed: what one of them gave.
  [[nodiscard]] const char* given_by(int rank) const;

 private:
  struct View;

  // Of what `ranks` ranks tell together.
  [[nodiscard]] std::size_t length(int ranks, std::size_t bytes) const;

  int rank_, size_;
  std::size_t bytes_ = 0;
  // A letter: a view, then what ranks gave, this one first, then the one before...
  std::unique_ptr<char[]> sheet_;
  std::vector<GlooLetters> steps_;  // to the rank 1 after this one, 2, 4...
};

}  // namespace trainrun::comm
