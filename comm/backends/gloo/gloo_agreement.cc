#include "comm/backends/gloo/gloo_agreement.h"

#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "comm/backends/gloo/gloo_mesh.h"
#include "launcher/base/fault.h"

namespace trainrun::comm {

// The sender's view of all ranks that it has heard of.
struct GlooAgreement::View {
  std::uint32_t rank, other_rank;
  Descriptor mine, other;
  std::uint8_t disagree;
};

namespace {

// Slots that no collective of Gloo uses (its prefixes are small numbers in the top byte).
constexpr std::uint64_t agree_slot = std::uint64_t{0x40} << 56;

}  // namespace

GlooAgreement::GlooAgreement(int rank, int size)
    : rank_(rank), size_(size), sent_(sizeof(View) + room), heard_(sizeof(View) + room) {}

// Dissemination in log2(size) rounds: in round k each rank tells the one 2^k after it what it knows of the
// 2^k ranks up to itself. After the last round everybody has heard of everybody, and knows the same answer
// but for which pair it names. Messages of ranks that disagree may differ in length, and Gloo ends the
// process on one that is longer than what waits for it; so there is always room for the longest.
std::optional<Disagreement> GlooAgreement::reach(gloo::Context& mesh, const Opinion& own, const void* given,
                                                 std::size_t bytes, Deadline deadline) {
  static_assert(std::is_trivially_copyable_v<View>);
  bytes_ = bytes;
  View view{};
  view.rank = own.rank;
  view.mine = own.mine;
  if (own.heard)
    view = {own.heard->first_rank, own.heard->second_rank, own.heard->first, own.heard->second, 1};
  auto* const known = sent_.data() + sizeof view;
  if (given != nullptr && bytes > 0)
    std::memcpy(known, given, bytes);
  else
    std::fill_n(known, bytes, '\0');
  std::uint64_t slot = agree_slot;
  for (int step = 1; step < size_; step *= 2, ++slot) {
    const auto parts = static_cast<std::size_t>(std::min(step, size_ - step));
    std::memcpy(sent_.data(), &view, sizeof view);
    const auto length = sizeof view + (view.disagree == 0 ? parts * bytes : 0);
    const auto out = mesh.createUnboundBuffer(sent_.data(), length);
    const auto in = mesh.createUnboundBuffer(heard_.data(), heard_.size());
    in->recv((rank_ + size_ - step) % size_, slot);
    out->send((rank_ + step) % size_, slot);
    static_cast<void>(fault::point("comm.wait"));
    in->waitRecv(time_until(deadline));
    out->waitSend(time_until(deadline));
    View heard;
    std::memcpy(&heard, heard_.data(), sizeof heard);
    if (view.disagree != 0) continue;
    if (heard.disagree != 0) {
      view = heard;
    } else if (!(heard.mine == own.mine)) {
      view.disagree = 1;
      view.other_rank = heard.rank;
      view.other = heard.mine;
    } else {
      std::memcpy(known + static_cast<std::size_t>(step) * bytes, heard_.data() + sizeof heard,
                  parts * bytes);
    }
  }
  if (view.disagree == 0) return std::nullopt;
  return Disagreement{view.rank, view.other_rank, view.mine, view.other};
}

const char* GlooAgreement::given_by(int rank) const {
  const auto before = static_cast<std::size_t>((rank_ - rank + size_) % size_);
  return sent_.data() + sizeof(View) + before * bytes_;
}

}  // namespace trainrun::comm
