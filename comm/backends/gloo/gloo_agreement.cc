#include "comm/backends/gloo/gloo_agreement.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "launcher/base/fault.h"

namespace trainrun::comm {

// The sender's view of all ranks that it has heard of.
struct GlooAgreement::View {
  std::uint32_t rank, other_rank;
  Descriptor mine, other;
  std::uint8_t disagree;
};

GlooAgreement::GlooAgreement(GlooMesh& mesh) : rank_(mesh.rank), size_(mesh.size) {
  const auto most = room / static_cast<std::size_t>(size_);
  const auto whole = GlooLetters::head + length(size_, most) + GlooLetters::tail;
  sheet_ = std::make_unique_for_overwrite<char[]>(whole);
  for (int step = 1; step < size_; step *= 2)
    steps_.emplace_back(mesh, step, std::span(sheet_.get(), whole),
                        length(std::min(step, size_ - step), most), static_cast<int>(steps_.size()));
}

std::size_t GlooAgreement::length(int ranks, std::size_t bytes) const {
  return sizeof(View) + static_cast<std::size_t>(ranks) * bytes;
}

// Dissemination in log2(size) rounds: in round k each rank tells the one 2^k after it what it knows of the
// 2^k ranks up to itself. After the last round everybody has heard of everybody, and knows the same answer
// but for which pair it names. Letters of ranks that disagree may differ in length; there is room for the
// longest.
std::optional<Disagreement> GlooAgreement::reach(const Opinion& own, const void* given, std::size_t bytes) {
  static_assert(std::is_trivially_copyable_v<View>);
  bytes_ = bytes;
  View view{};
  view.rank = own.rank;
  view.mine = own.mine;
  if (own.heard)
    view = {own.heard->first_rank, own.heard->second_rank, own.heard->first, own.heard->second, 1};
  auto* const text = sheet_.get() + GlooLetters::head;
  auto* const known = text + sizeof view;
  if (given != nullptr && bytes > 0)
    std::memcpy(known, given, bytes);
  else
    std::fill_n(known, bytes, '\0');
  int step = 1;
  for (auto& letters : steps_) {
    const auto parts = std::min(step, size_ - step);
    std::memcpy(text, &view, sizeof view);
    letters.send(view.disagree == 0 ? length(parts, bytes) : sizeof view);
    static_cast<void>(fault::point("comm.wait"));
    const auto* const letter = letters.await();
    View heard;
    std::memcpy(&heard, letter, sizeof heard);
    const auto before = static_cast<std::size_t>(std::exchange(step, 2 * step));
    if (view.disagree != 0) continue;
    if (heard.disagree != 0) {
      view = heard;
    } else if (!(heard.mine == own.mine)) {
      view.disagree = 1;
      view.other_rank = heard.rank;
      view.other = heard.mine;
    } else {
      std::memcpy(known + before * bytes, letter + sizeof heard, static_cast<std::size_t>(parts) * bytes);
    }
  }
  if (view.disagree == 0) return std::nullopt;
  return Disagreement{view.rank, view.other_rank, view.mine, view.other};
}

const char* GlooAgreement::given_by(int rank) const {
  const auto before = static_cast<std::size_t>((rank_ - rank + size_) % size_);
  return sheet_.get() + GlooLetters::head + sizeof(View) + before * bytes_;
}

}  // namespace trainrun::comm
